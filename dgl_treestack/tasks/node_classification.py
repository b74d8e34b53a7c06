"""Classification of every node: which class of its language does each subtree belong to?"""

from math import nan

from dgl_treestack.data.formats import Example
from dgl_treestack.tasks import Item
from dgl_treestack.tasks.classification import Classification


class NodeClassification(Classification):
    """Classification with an output at every node that has a label, as for phrases (Socher et al. 2013; Tai et al. 2015):

        P(class of node j) = softmax(W h_j + b)

    W, b, loss and correctness are those of classification, B the number of labelled nodes of a batch. The mean of the losses
    is over nodes, so a large tree has more weight. A tree without any label has an output at each of its nodes.
    """

    name = "node_classification"
    at_nodes = True

    def prepare(self, example: Example) -> Item:
        labels = example.labels or (example.label,)
        targets = {node: float(self.classes.index(str(label))) for node, label in enumerate(labels) if label is not None}
        return Item(example.equation, targets or dict.fromkeys(range(example.equation.size), nan))


TASK = NodeClassification
