"""The grammar that makes the demo's phrasebook: words, agreement and sentence patterns in English and French."""
