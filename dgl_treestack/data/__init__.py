"""Data: vocabulary, forests of trees in columns, DGL graphs of them, and the files of examples."""
