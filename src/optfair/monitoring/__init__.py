"""Watch a rule over time: counts of people who come by and by, looked at as often as one likes."""
