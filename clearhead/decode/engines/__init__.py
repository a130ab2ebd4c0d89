"""Decoding engines; `decode.registry` names them."""
