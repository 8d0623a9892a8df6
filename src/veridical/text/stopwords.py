"""The 198 English stop words of NLTK's corpus (2024 data), which the word-overlap detector ignores.

The list goes back to Porter's list (Snowball). It contains complete contractions ("don't"), and the fragments that
result from splitting them at the apostrophe ("don", "t").
"""

from __future__ import annotations

_WORDS = """
i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers herself
it its itself they them their theirs themselves what which who whom this that these those
am is are was were be been being have has had having do does did doing
a an the and but if or because as until while of at by for with about against between into through during
before after above below to from up down in out on off over under again further then once here there when
where why how all any both each few more most other some such no nor not only own same so than too very
can will just should now
s t d ll m o re ve y don ain aren couldn didn doesn hadn hasn haven isn ma mightn mustn needn shan shouldn wasn
weren won wouldn
you're you've you'll you'd she's it's that'll should've don't aren't couldn't didn't doesn't hadn't hasn't
haven't isn't mightn't mustn't needn't shan't shouldn't wasn't weren't won't wouldn't
he'd he'll he's i'd i'll i'm i've it'd it'll she'd she'll they'd they'll they're they've we'd we'll we're we've
"""
STOP_WORDS = frozenset(_WORDS.split())
