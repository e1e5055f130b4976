"""Say on one page what all experiments found: six pictures and three small tables, from recorded lines."""
