"""Services behind environments: compiler sessions, either aiocg's or a user script's."""
