"""Language models over any text: recurrent nets with stacks, and n-grams as baselines."""
