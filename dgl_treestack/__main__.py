"""`python -m dgl_treestack` is `treestack`."""

from dgl_treestack.cli import main

if __name__ == "__main__":
    main()
