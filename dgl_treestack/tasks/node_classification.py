"""Classification of every node: which class of its language does each subtree belong to?"""

from dgl_treestack.data.formats import Example
from dgl_treestack.errors import DataError
from dgl_treestack.tasks import Item
from dgl_treestack.tasks.classification import Classification


class NodeClassification(Classification):
    """Classification with an output at every node, as for phrases (Socher et al. 2013; Tai et al. 2015):

        P(class of node j) = softmax(W h_j + b)

    W, b, loss and correctness are those of classification, B the number of nodes of a batch. Training leaves out nodes without
    a label; the mean of the losses is over nodes, so a large tree has more weight.
    """

    name = "node_classification"
    at_nodes = True

    def prepare(self, example: Example) -> Item:
        unknown = (None,) * (example.equation.size - 1)
        labels = example.labels or (example.label, *unknown)
        if len(labels) != example.equation.size:
            raise DataError(f"There are {len(labels)} labels for {example.equation.size} nodes.", example.source or None)
        return Item(example.equation, {node: self.target(label, example.source) for node, label in enumerate(labels)})


TASK = NodeClassification
