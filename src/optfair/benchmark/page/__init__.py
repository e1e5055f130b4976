"""The page of results: results (what the lines say) → panels → tables, figures → sections → write."""
