"""Language models over a text of one's own: recurrent nets with stacks, and the n-grams that they have to beat."""
