"""A recipe has no open choice."""

import pytest

from clearhead.config import Config, Recipe
from clearhead.errors import ConfigError

CHOSEN = {
    "data.batch_tokens": 64, "train.steps": 3, "train.optimizer": "adam", "train.lr": 0.1, "train.schedule": "linear",
    "train.warmup": 0, "train.eval_every": 1, "train.save_every": 1, "train.precision": "fp32", "train.device": "cpu",
    "train.threads": 1,
}  # fmt: skip


@pytest.mark.parametrize("name", CHOSEN)
def test_a_config_with_an_open_choice_is_no_recipe(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Recipe.of(Config().override({key: value for key, value in CHOSEN.items() if key != name}))
    assert (caught.value.name, caught.value.value) == (name, Config().value(name))


def test_a_recipe_has_the_values_and_origins_of_the_config() -> None:
    config = Config().override(CHOSEN).assign({"train.threads": 2}, "machine")
    recipe = Recipe.of(config)
    assert recipe.to_record() == config.to_record()
    changed = recipe.assign({"train.seed": 5}, "machine")
    assert isinstance(changed, Recipe) and (changed.train.seed, changed.train.steps) == (5, 3)
    assert Config.from_record(recipe.to_record(), source="config.json") == config
