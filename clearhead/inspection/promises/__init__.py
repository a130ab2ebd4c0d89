"""The promises of the code, each proved on a model that is given."""
