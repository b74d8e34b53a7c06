"""Results: metrics over records, finished runs, and tables of them."""
