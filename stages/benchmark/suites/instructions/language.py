"""Tells the language of a text by its script and its most frequent small words, pure.

Law: where a script is written by several languages, the one with most of its small words in the text is chosen; no
small word at all is no language.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from typing import Final

LETTERS_MAX: Final = 20_000

# A script is the first word of the names of its letters in Unicode.
_ONLY: Final = {
    "GUJARATI": "gu", "GURMUKHI": "pa", "TAMIL": "ta", "TELUGU": "te", "KANNADA": "kn", "MALAYALAM": "ml",
    "BENGALI": "bn", "THAI": "th", "HANGUL": "ko", "HIRAGANA": "ja", "KATAKANA": "ja", "CJK": "zh", "GREEK": "el",
    "HEBREW": "he",
}  # fmt: skip
_SMALL_WORDS: Final = {
    "LATIN": {
        "en": "the of and to in is that it was for on are with as be this have from or by not but what you they his at an"
        " we can will would there their which",
        "de": "der die das und ist nicht ein eine zu den mit von auf für sich im dem des auch es wird wie oder ich wir sie"
        " sind war haben werden einen",
        "fr": "le la les des et est une que dans qui pour pas sur avec il elle sont au du ce nous vous plus par mais cette"
        " ou être aux ses",
        "es": "el la los las que y en un una es por con para no se del su al lo como más pero sus le ha este son está muy"
        " también",
        "it": "il di che la e un una per non è in con del della sono si da come più le gli nel alla anche ma questo dei lo"
        " ha essere",
        "pt": "o que de e do da em um uma para com não os no se na por mais as dos como mas ao ele das é são está você"
        " também pela",
        "nl": "de het een en van is dat niet in op te zijn voor met die aan er om ook als maar door naar wordt bij deze"
        " hebben",
        "fi": "ja on ei se että oli mutta hän kun niin myös ovat tämä joka voi kuin sekä olen jos kanssa mukaan hänen ole"
        " sen nyt",
        "sv": "och att det i en som på är av för med till den har inte om ett han men var jag sig från vi så kan när också",
        "vi": "và của là có được cho các trong một không với những người này đã để từ khi trên như cũng về ra bạn nó",
        "sw": "na ya wa kwa ni katika za la kuwa hii cha kama yake watu hiyo pia lakini vya huo wake hivyo sana mimi yangu"
        " bila",
        "pl": "i w na nie się jest że z do to jak o co ale po od za są przez dla być który może tylko jego",
        "tr": "ve bir bu da de için ile çok olarak daha gibi ne ama olan var en sonra kadar değil ben o",
        "id": "yang dan di ini dengan untuk dari tidak pada adalah dalam itu akan ke saya oleh juga bisa ada kami",
    },
    "CYRILLIC": {
        "ru": "и в не на что с он как это по но из его от для мы вы был она все бы ли к у я так же или было",
        "bg": "и на да в от за се не са е с по като но това или който той които си ще може как към още аз беше",
        "uk": "і в не на що з він як це та до але із його від для ми ви був вона всі би є у я так або було",
    },
    "ARABIC": {
        "ar": "في من على إلى أن هذا التي عن الذي هذه مع كان لا ما هو هي كل بعد ذلك قد أو كما",
        "fa": "در به از که این را با است برای آن یک می های خود تا بر هم شود شده کند اما او ما نیز",
        "ur": "کے میں کی ہے اور سے کا کو نے پر یہ ہیں کہ اس تھا بھی ایک نہیں تو جو ہو وہ ان لیے",
    },
    "DEVANAGARI": {
        "hi": "के में की है और से का को ने पर यह हैं कि इस था भी एक नहीं तो जो हो वह लिए हम",
        "mr": "आहे आणि च्या या ने ते हे तर मी नाही त्या होते करून आहेत साठी एक व हा ही होता त्यांच्या आपल्या",
        "ne": "छ र को मा ले यो पनि हो का गर्न छन् लागि भएको एक तर हुन्छ गरेको थियो छैन हामी सबै गर्ने",
    },
}  # fmt: skip
_SETS: Final = {
    script: {language: frozenset(told.split()) for language, told in languages.items()}
    for script, languages in _SMALL_WORDS.items()
}
LANGUAGES: Final = frozenset(_ONLY.values()).union(*(languages for languages in _SMALL_WORDS.values()))


def language_of(text: str) -> str | None:
    """Return the code of the language in which most of a text is written; None where nothing tells."""
    scripts = Counter(map(_script, filter(str.isalpha, text[:LETTERS_MAX])))
    if not scripts:
        return None
    if scripts["HIRAGANA"] + scripts["KATAKANA"] > scripts["CJK"] / 10 and scripts["CJK"]:
        return "ja"
    script = scripts.most_common(1)[0][0]
    if script in _ONLY:
        return _ONLY[script]
    said = Counter(re.findall(r"[^\W\d_][\w\u0900-\u097f]*", text[:LETTERS_MAX].lower()))
    scores = {
        language: sum(said[word] for word in small) for language, small in _SETS.get(script, {}).items()
    }
    best = max(scores, key=lambda language: scores[language], default=None)
    return best if best is not None and scores[best] else None


def _script(letter: str) -> str:
    return unicodedata.name(letter, "UNKNOWN").split()[0]
