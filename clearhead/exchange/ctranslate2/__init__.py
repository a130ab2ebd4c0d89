"""CTranslate2's form of models: a binary file and vocabularies."""
