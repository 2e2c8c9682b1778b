"""Pages of one HTML file that need nothing else: their frame, their tables, their interactive charts."""
