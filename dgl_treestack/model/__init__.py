"""Models (a cell or an encoder with tasks and a vocabulary), the data sets they read, and the table of model names."""
