"""Time phrases shared by many patterns."""

from . import lexicon_verbs
from .grammar import Part
from .words import rows

PAST = [Part(en, fr) for en, fr in rows(lexicon_verbs.PAST_TIMES)]
FUTURE = [Part(en, fr) for en, fr in rows(lexicon_verbs.FUTURE_TIMES)]
HABIT = [Part(en, fr) for en, fr in rows(lexicon_verbs.HABIT_TIMES)]
ON_DAY = [Part(f"on {en}", fr, (en,)) for en, fr in rows(lexicon_verbs.DAYS)]
ON_DAYS = [Part(f"on {en}s", f"le {fr}", (en,)) for en, fr in rows(lexicon_verbs.DAYS)]  # "on Mondays"
IN_SEASON = [Part(f"in {en}", fr, (en,)) for en, fr in rows(lexicon_verbs.SEASONS)]
IN_MONTH = [Part(f"in {en}", f"en {fr}", (en,)) for en, fr, _ in rows(lexicon_verbs.MONTHS)]
SEASON_OF = {en: season for en, _, season in rows(lexicon_verbs.MONTHS)} | {
    en: en for en, _ in rows(lexicon_verbs.SEASONS)
}
