"""Reading run directories for the pages."""
