import math

import pytest
import torch

from clearhead.errors import ModelError
from clearhead.model.fronts.tokens import Embedding, Projection, TokenTypes


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
    project = Projection(4, 7, tied=embedding)
    assert project.weight is embedding.weight and project.bias is None
    torch.testing.assert_close(project(x), x @ embedding.weight.T, rtol=0, atol=1e-15)  # not scaled a second time


def test_a_projection_of_its_own_has_a_bias() -> None:
    project, x = Projection(4, 7), torch.randn(2, 3, 4)
    torch.nn.init.normal_(project.bias)
    assert project.weight.shape == (7, 4) and project.bias.shape == (7,)
    torch.testing.assert_close(project(x), x @ project.weight.T + project.bias, rtol=0, atol=1e-15)


def test_a_tied_matrix_learns_from_both_of_its_uses(gradients) -> None:
    embedding, tokens = Embedding(7, 4), torch.tensor([[1, 2]])
    project = Projection(4, 7, tied=embedding)
    as_output = gradients(project(embedding(tokens).detach()), embedding.weight)[0]
    as_input = gradients(embedding(tokens) @ embedding.weight.detach().T, embedding.weight)[0]
    both = gradients(project(embedding(tokens)), embedding.weight)[0]
    torch.testing.assert_close(both, as_output + as_input)


def test_padding_is_masked() -> None:
    tokens = torch.tensor([[5, 6, 0], [0, 4, 3]])
    assert Embedding(7, 4).mask(tokens)[:, 0, 0].equal(tokens != 0)
    assert Embedding(7, 4, pad=6).mask(tokens)[:, 0, 0].equal(tokens != 6)


def test_padding_beyond_the_vocabulary_is_masked_and_embedded_as_token_0() -> None:
    embedding = Embedding(5, 8, pad=5)
    tokens = torch.tensor([[4, 0, 5, 5]])
    assert embedding.mask(tokens)[0, 0, 0].tolist() == [True, True, False, False]
    assert torch.equal(embedding(tokens)[0], embedding(torch.tensor([[4, 0, 0, 0]]))[0])
    with pytest.raises(ModelError):
        embedding(torch.tensor([[6]]))


def test_a_token_beyond_the_vocabulary_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(ModelError) as caught:
        Embedding(7, 4)(torch.tensor([[1, 9, 2]]))
    assert (caught.value.name, caught.value.value) == ("tokens", 9)
    assert str(caught.value).split("\n  ") == [
        "token 9 is beyond the vocabulary of 7",
        "expected: token ids from 0 to 6",
        "encode the text with this model's tokenizer",
    ]


def test_a_type_beyond_those_of_the_model_is_an_error() -> None:
    with pytest.raises(ModelError) as caught:
        TokenTypes(2, 4)(torch.tensor([[0, 1, 2]]))
    assert (caught.value.name, caught.value.value) == ("types", 2)
