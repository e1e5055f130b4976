"""Write the pages: results (the numbers of the lines) → panels → tables, figures → sections → templates → files."""
