"""Archives: `pack` writes them from artifacts, `read` reads their contents."""
