"""Programs that measurements run in processes of their own."""
