"""Apps: trained models that read and write plain text."""
