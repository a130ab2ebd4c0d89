"""Words, agreement and sentence patterns of the phrasebook."""
