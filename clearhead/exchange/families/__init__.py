"""Families of models that Hugging Face's Transformers knows, a module for each."""
