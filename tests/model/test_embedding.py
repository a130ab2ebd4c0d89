import math
import re

import pytest
import torch

from clearhead.errors import ModelError
from clearhead.model.embedding import Embedding, projection


def test_a_token_becomes_its_row_times_the_root_of_the_width() -> None:
    embedding, tokens = Embedding(7, 9), torch.tensor([[0, 6, 3], [3, 3, 1]])
    result = embedding(tokens)
    assert result.shape == (2, 3, 9)
    for b, row in enumerate(tokens.tolist()):
        for t, token in enumerate(row):
            torch.testing.assert_close(result[b, t], embedding.weight[token] * 3, rtol=1e-15, atol=0)


@pytest.mark.parametrize("d_model", [16, 100, 512])
def test_what_comes_out_has_mean_zero_and_variance_one_at_the_start(d_model) -> None:
    embedding = Embedding(200_000 // d_model, d_model)
    values = embedding(torch.arange(len(embedding.weight))[None])
    assert abs(values.mean()) < 0.02 and abs(values.var() - 1) < 0.02
    assert math.isclose(embedding.weight.std().item(), d_model**-0.5, rel_tol=0.01)


def test_a_tied_projection_is_the_embeddings_own_matrix_without_a_bias() -> None:
    embedding, x = Embedding(7, 4), torch.randn(2, 3, 4)
    project = projection(4, 7, tied=embedding)
    assert project.weight is embedding.weight and project.bias is None
    torch.testing.assert_close(project(x), x @ embedding.weight.T, rtol=0, atol=1e-15)  # not scaled a second time


def test_a_projection_of_its_own_has_a_bias() -> None:
    project, x = projection(4, 7), torch.randn(2, 3, 4)
    torch.nn.init.normal_(project.bias)
    assert project.weight.shape == (7, 4) and project.bias.shape == (7,)
    torch.testing.assert_close(project(x), x @ project.weight.T + project.bias, rtol=0, atol=1e-15)


def test_a_tied_matrix_learns_from_both_of_its_uses(gradients) -> None:
    embedding, tokens = Embedding(7, 4), torch.tensor([[1, 2]])
    project = projection(4, 7, tied=embedding)
    as_output = gradients(project(embedding(tokens).detach()), embedding.weight)[0]
    as_input = gradients(embedding(tokens) @ embedding.weight.detach().T, embedding.weight)[0]
    both = gradients(project(embedding(tokens)), embedding.weight)[0]
    torch.testing.assert_close(both, as_output + as_input)


def test_a_token_beyond_the_vocabulary_is_refused_with_what_to_do() -> None:
    message = "token 9 is beyond the vocabulary of 7; encode the text with the tokenizer of this model"
    with pytest.raises(ModelError, match=f"^{re.escape(message)}$"):
        Embedding(7, 4)(torch.tensor([[1, 9, 2]]))
