"""What is no part of the product: compare_wrk.py compares `marina bench` with wrk."""
