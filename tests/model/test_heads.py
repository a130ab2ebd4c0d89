"""The heads on an encoder: each against its formula, what they may not read, and that they learn."""

import pytest
import torch

from clearhead.config import ModelConfig
from clearhead.errors import ConfigError, ModelError
from clearhead.model.fronts.tokens import Embedding, Projection
from clearhead.model.heads import ClassPredictor, SpanFinder, TokenPredictor
from clearhead.model.masks import padding_mask
from clearhead.model.transformer import Encoder, EncoderModel, build

B, S, D, C, V = 2, 5, 8, 3, 11
REAL = torch.tensor([[True, True, True, False, False], [False, True, False, True, True]])
SOURCE = torch.tensor([[3, 4, 5, 6, 7], [8, 9, 10, 0, 0]])
HEADS = ["class", "span", "token"]
every_head = pytest.mark.parametrize("head", HEADS)


def small(head: str, **changed) -> ModelConfig:
    plain = {"src_vocab_size": V, "d_model": D, "n_heads": 2, "d_ff": 12, "n_encoder_layers": 1, "max_len": 20}
    classes = {"n_classes": C} if head == "class" else {}
    return ModelConfig(topology="encoder-only", head=head, **plain | classes | changed)


# --- the formulas


def test_the_mean_is_that_of_the_real_tokens() -> None:
    head, x = ClassPredictor(D, C).eval(), torch.randn(B, S, D)
    means = torch.stack([(x[0, 0] + x[0, 1] + x[0, 2]) / 3, (x[1, 1] + x[1, 3] + x[1, 4]) / 3])
    torch.testing.assert_close(head(x, REAL), means @ head.linear.weight.T + head.linear.bias)


def test_the_first_token_is_the_first_that_is_real() -> None:
    head, x = ClassPredictor(D, C, "first").eval(), torch.randn(B, S, D)
    firsts = torch.stack([x[0, 0], x[1, 1]])
    torch.testing.assert_close(head(x, REAL), firsts @ head.linear.weight.T + head.linear.bias)


@pytest.mark.parametrize("pooling", ["mean", "first"])
def test_a_text_without_a_token_has_finite_scores_and_gradients(pooling) -> None:
    head, x = ClassPredictor(D, C, pooling), torch.randn(B, S, D, requires_grad=True)
    scores = head(x, torch.zeros(B, S, dtype=torch.bool))
    scores.sum().backward()
    assert scores.isfinite().all() and x.grad.isfinite().all()


def test_what_is_pooled_is_dropped_out_while_training_only() -> None:
    head, x = ClassPredictor(64, C, dropout=0.5), torch.ones(B, S, 64)
    torch.nn.init.eye_(head.linear.weight)
    assert set(head(x, REAL).flatten().tolist()) == {0.0, 2.0} and head.eval()(x, REAL).eq(1).all()


def test_another_pooling_is_refused() -> None:
    with pytest.raises(ModelError) as caught:
        ClassPredictor(D, C, "max")
    assert (caught.value.name, caught.value.value) == ("pooling", "max")


def test_a_start_and_an_end_are_two_products_and_barred_where_they_may_not_be() -> None:
    head, x = SpanFinder(D), torch.randn(B, S, D)
    scores = head(x, REAL)
    start, end = head.linear.weight
    torch.testing.assert_close(scores[REAL], torch.stack([x[REAL] @ start, x[REAL] @ end], -1))
    assert scores[0, 3:].eq(float("-inf")).all() and scores[1, 2].eq(float("-inf")).all()


def test_no_answer_can_always_be_given_so_that_probabilities_and_gradients_are_finite() -> None:
    head, x = SpanFinder(D), torch.randn(B, S, D, requires_grad=True)
    nowhere = torch.zeros(B, S, dtype=torch.bool)
    probabilities = head(x, nowhere).softmax(1)
    assert probabilities[:, 0].eq(1).all() and not probabilities[:, 1:].any() and not nowhere.any()
    (probabilities * torch.randn(B, S, 2)).sum().backward()
    assert x.grad.isfinite().all()


def test_hidden_tokens_are_predicted_where_they_stand_row_by_row() -> None:
    embedding, x = Embedding(V, D), torch.randn(B, S, D)
    head = TokenPredictor(Projection(D, V, tied=embedding))
    expected = torch.stack([x[b, s] @ embedding.weight.T for b in range(B) for s in range(S) if REAL[b, s]])
    torch.testing.assert_close(head(x, REAL), expected)
    numbers = REAL.flatten().nonzero()[:, 0]
    assert head(x, numbers).equal(head(x, REAL)) and head(x, numbers.flip(0)).equal(head(x, REAL).flip(0))


# --- on an encoder


@every_head
def test_build_puts_the_head_on_an_encoder_that_does_not_attend_to_padding(head) -> None:
    net = build(small(head)).eval()
    assert isinstance(net, EncoderModel)
    real = SOURCE != 0
    expected = net.head(net.encoder(SOURCE, mask=padding_mask(SOURCE)), real)
    assert net(SOURCE).equal(expected) and net(SOURCE, at=real).equal(expected)
    assert expected.shape == {"class": (B, C), "span": (B, S, 2), "token": (8, V)}[head]


@every_head
def test_padding_and_batch_mates_change_nothing(head) -> None:
    net = build(small(head)).eval()
    alone, together = net(SOURCE[1:, :3]), net(torch.nn.functional.pad(SOURCE, (0, 4)))
    mine = {"class": together[1:], "span": together[1:, :3], "token": together[5:]}[head]
    torch.testing.assert_close(mine, alone, rtol=0, atol=1e-12)


def test_the_head_reads_what_it_is_told_to() -> None:
    net, at = build(small("class")).eval(), torch.zeros(B, S, dtype=torch.bool)
    at[:, 2] = True
    hidden = net.encoder(SOURCE, mask=padding_mask(SOURCE))[:, 2]
    torch.testing.assert_close(net(SOURCE, at=at), net.head.linear(hidden))


def test_the_settings_reach_the_head() -> None:
    head = build(small("class", pooling="first", dropout=0.3, bias=False)).head
    assert (head.pooling, head.dropout.p, head.linear.bias, head.linear.out_features) == ("first", 0.3, None, C)
    for tie in ("all", "target", "none"):
        net = build(small("token", tie=tie))
        assert (net.head.projection.weight is net.encoder.embedding.weight) == (tie != "none")
        assert (net.head.projection.bias is None) == (tie != "none")
    assert isinstance(build(small("none")), Encoder)


@every_head
def test_every_parameter_has_a_finite_gradient(head) -> None:
    net = build(small(head, n_token_types=2))
    scores = net(SOURCE, SOURCE % 2)
    (scores.masked_fill(scores == float("-inf"), 0.0) * torch.randn(scores.shape)).sum().backward()
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all() and parameter.grad.any(), name


def test_no_class_is_an_error() -> None:
    with pytest.raises(ConfigError) as caught:
        build(small("class", n_classes=0))
    assert (caught.value.name, caught.value.value) == ("model.n_classes", 0)


# --- types of tokens


def test_a_type_adds_its_vector_to_the_embedding() -> None:
    net, types, seen = build(small("class", n_token_types=3)).eval(), SOURCE % 3, []
    net.encoder.blocks[0].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    net(SOURCE, types), net(SOURCE), net(SOURCE, torch.zeros_like(SOURCE))
    torch.testing.assert_close(seen[0] - seen[1], (net.encoder.types.weight - net.encoder.types.weight[0])[types])
    assert seen[1].equal(seen[2])  # the first type, where none is said


def test_types_passed_to_a_model_without_them_are_an_error() -> None:
    with pytest.raises(ModelError) as caught:
        build(small("class"))(SOURCE, SOURCE)
    assert caught.value.name == "types" and "model.n_token_types" in caught.value.fix


# --- learning


def learn(net, batch, loss, steps: int) -> None:
    optimizer = torch.optim.Adam(net.train().parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        loss(net, *batch()).backward()
        optimizer.step()
    net.eval()


def words(rows: int) -> torch.Tensor:
    """(rows, 6) of tokens 3 to 10."""
    return torch.randint(3, V, (rows, 6))


@pytest.mark.parametrize("pooling", ["mean", "first"])
def test_a_classifier_learns_whether_a_token_occurs(pooling) -> None:
    def batch():
        tokens = words(32)
        return tokens, (tokens == 3).any(1).long()

    net = build(small("class", n_classes=2, pooling=pooling, dropout=0.0))
    learn(net, batch, lambda net, x, y: torch.nn.functional.cross_entropy(net(x), y), 150)
    tokens = words(500)
    assert (net(tokens).argmax(1).bool() == (tokens == 3).any(1)).double().mean() > 0.95


def test_a_span_finder_learns_to_find_what_is_asked_for_or_that_it_is_not_there() -> None:
    """The question is 3 or 4; its answer begins there in the text, at a random place, and ends with the text."""
    types = torch.tensor([[0, 1, 1, 1, 1]]).expand(64, -1)

    def batch():
        question = torch.randint(3, 5, (64, 1))
        text = torch.stack([torch.randperm(6)[:4] + 3 for _ in range(64)])  # 3 to 8, each at most once
        found = text == question
        start = torch.where(found.any(1), found.long().argmax(1) + 1, 0)
        return torch.cat([question, text], 1), start, torch.where(start > 0, 4, 0)

    def loss(net, tokens, *places):
        scores = net(tokens, types)
        return sum(torch.nn.functional.cross_entropy(scores[..., i], place) for i, place in enumerate(places))

    net = build(small("span", n_token_types=2, d_model=16, dropout=0.0))
    learn(net, batch, loss, 200)
    tokens, *places = batch()
    assert (net(tokens, types).argmax(1) == torch.stack(places, 1)).all(1).double().mean() > 0.95


def test_hidden_tokens_are_learned_from_their_neighbours() -> None:
    """Texts count upwards, so that a hidden token (2) follows from those beside it."""

    def batch():
        whole = torch.randint(3, 7, (32, 1)) + torch.arange(5)
        at = torch.rand(32, 5).argsort(1) == 0  # one a row
        return whole.masked_fill(at, 2), whole[at], at

    net = build(small("token", dropout=0.0))
    learn(net, batch, lambda net, x, y, at: torch.nn.functional.cross_entropy(net(x, at=at), y), 200)
    tokens, hidden, at = batch()
    assert (net(tokens, at=at).argmax(1) == hidden).double().mean() > 0.95
