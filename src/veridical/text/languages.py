"""Guess the language of a text from its script and its function words, without a trained model.

The guess is good enough to notice that a text is not English. It mostly names the right language, but may confuse
closely related ones. A text with too few function words gets no guess. Of a long text, only the beginning, the middle
and the end are used.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache
from math import log

# code: name, function words in lower case, and letters beyond a to z; languages with more speakers come first
_LATIN = {
    "en": (
        "English",
        "the of and to in is was for that on with as at by from it its his he she they are were be been has had have "
        "this which who their an or not but will would can could should said about after more than when there what "
        "where into also her him them we you our your my if out up over all one two other some any no so do does did "
        "these those only may most such between during then because while being both through before how many much "
        "just under very now per each against until again ve ll "
        "man men war son due come see need me us ten met door care till non plus era am co sense cap nor",
        "",
    ),
    "es": (
        "Spanish",
        "el la los las un una unos unas de del al en que es son fue ser era está han ha con por para se su sus lo le "
        "les no más como pero este esta estos estas ese esa eso también muy cuando donde entre sobre hasta desde sin "
        "ya todo todos hay fueron qué quién cuál mi yo él ella ellos nos si porque durante tiene tienen años puede "
        "ni otro otra según siendo sido había cada cuántas nombre dónde",
        "áéíóúñ",
    ),
    "fr": (
        "French",
        "le la les un une des du de et est en que qui dans pour pas sur au aux avec ce cette ces il elle ils elles "
        "se sont par plus ne ou mais son sa ses leur leurs été être était ont fut comme nous vous je tu on où si "
        "tout tous deux sans sous entre après avant aussi très donc dont peut lors même l d qu n c j s ainsi depuis "
        "selon cela votre notre quand quel quelle quels quelles comment premier",
        "éèêàçîôùû",
    ),
    "pt": (
        "Portuguese",
        "os as um uma de do da dos das em no na nos nas ou que é são foi ser era está com por para se ao aos à às "
        "não mais como mas seu sua seus suas pelo pela pelos pelas este esta isso esse essa também muito quando onde "
        "entre sobre até desde sem já foram tem têm você eu ele ela eles nós lhe após depois durante anos pode nem "
        "outro qual quem há quais quantos primeiro",
        "ãõçâêôáéíóú",
    ),
    "de": (
        "German",
        "der die das und ist von den dem des ein eine einer eines einem einen im in zu zum zur mit auf für nicht "
        "sich auch als an es er sie wir ich wird werden wurde wurden war waren hat haben bei aus nach über oder aber "
        "wie dass noch nur durch vor bis unter zwischen sind kann können mehr sein seine seiner ihre ihrer diese "
        "dieser dieses um am vom beim wenn so man was kein keine sehr gegen seit ihm ihn ihr sowie hier da muss "
        "bitte welche welcher welchem welchen wer wo wann heißt gibt",
        "äöüß",
    ),
    "it": (
        "Italian",
        "il lo la gli le un uno una di del della dei delle degli dello al alla ai alle in nel nella nei nelle ed che "
        "è sono per con non si da dal dalla su sul sulla come più anche ma se suo sua suoi era stato stata fu questo "
        "questa questi queste quello ha hanno essere dopo tra fra due loro lui lei noi io dove quando molto ogni "
        "solo così può quindi prima cui perché l d dell nell all quale quali quanti chi cosa",
        "àèìòù",
    ),
    "nl": (
        "Dutch",
        "de het een van en in is dat op te zijn met voor niet die aan er om ook als door bij uit naar maar of "
        "was werd worden wordt heeft hebben had over nog tot deze dit geen meer kan kunnen moet zich haar hun hij "
        "zij ze wij we je ik onder tegen na waren omdat tussen wat waar wie zo veel zeer onze uw alleen al welke "
        "welk hoe wanneer eerste",
        "ëï",
    ),
    "id": (
        "Indonesian",
        "dan yang di dengan ini itu dari untuk pada adalah tidak dalam akan ke oleh sebagai juga atau telah karena "
        "mereka dia ia bahwa ada bisa dapat lebih saya kami anda kita seorang sebuah para antara sudah saat setelah "
        "namun tetapi hanya menjadi merupakan tersebut seperti secara hingga bagi lain sangat apa siapa bukan belum "
        "harus jika ketika",
        "",
    ),
    "tr": (
        "Turkish",
        "ve bir bu da de için ile olarak olan daha çok en gibi ancak veya sonra kadar ne ki mi değil var yok ise "
        "tarafından oldu olduğu olduğunu her hem şu ben sen biz siz onun ama önce göre üzerinde arasında yılında ya "
        "nasıl neden kim hangi bazı tüm edildi edilen olması vardır",
        "çğıöşü",
    ),
    "pl": (
        "Polish",
        "na do nie się jest że to jak po co ale dla od za przez przy był była było były być są lub oraz który która "
        "które których tego tej ten ta te jego jej ich już tylko może tak także jako przed pod nad między gdy gdzie "
        "ma mają ze we ja ty on ona my czy więc bardzo aby został została jednak",
        "ąćęłńóśźż",
    ),
    "vi": (
        "Vietnamese",
        "và của là các có được cho không trong một những với người này đã từ khi để như đến về tại ra vào năm theo "
        "nhiều sau trên cũng hay hoặc bị nó ông bà tôi bạn rất phải do đó vì nên nhưng còn chỉ sẽ thì mà hơn nhất",
        "ăâđêôơưạảấầậắằặẹếềệỉịọốồộớờợụủứừựỳ",
    ),
    "ro": (
        "Romanian",
        "și în de la al ai ale cu pe pentru din că nu este sunt fost care un unei unui mai ca se sa sau dar prin "
        "după până între fi era au am ce cum când unde foarte acest această acestea aceste lui lor ei el ea noi voi "
        "eu dacă fără către despre astfel doar toate decât sub fie într avea poate ani",
        "ăâîșț",
    ),
    "cs": (
        "Czech",
        "ve na se si ze do je jsou byl byla bylo byli být není ale nebo že který která kteří pro od po při za ke "
        "jako jeho její jejich tento tato toto této tím ten ta to aby už také však než pod nad mezi podle co když "
        "jen jsem jste může tak kde protože před přes má mají pouze všechny",
        "ěščřžýáíéúůťďň",
    ),
    "hu": (
        "Hungarian",
        "az és hogy nem is egy volt de ez azt ezt meg csak vagy mint már el van ki be fel le kell ha még után amely "
        "aki ami akik ezek azok pedig között alatt szerint által minden nagyon több voltak lesz lehet mert így úgy ő "
        "ők én te mi ennek annak itt ott hol mikor majd sem illetve során",
        "áéíóöőúüű",
    ),
    "sv": (
        "Swedish",
        "och att det som en ett på är av för med till den de inte om var han hon har från vid men sig ut när efter "
        "eller också över vi jag du blev kan skulle så där vara nu ska vill mellan hade vad vem denna detta dessa "
        "mycket mer inga något några bli blir deras hans hennes in upp mot under bara själv både kunde utan dig mig "
        "ni finns även sin sitt sina vilken vilket genom vilka hur många första heter",
        "åäö",
    ),
    "da": (
        "Danish",
        "og at det der en et den til er som på de med af for ikke var han hun har fra om vi jeg du blev kan men sig "
        "efter eller også over ved ud når være nu skal vil mellem havde hvor hvad denne dette disse meget mere ingen "
        "noget nogle blive bliver deres hans hendes ind op mod under kun selv både kunne skulle uden dig mig hvilken "
        "hvem hvornår første",
        "æøå",
    ),
    "fi": (
        "Finnish",
        "ja on ei se että oli hän ovat joka mutta tai myös kun kuin ole olla jos niin sen siitä hänen ne tämä nämä "
        "sitä jotka mukaan vuonna sekä jonka kanssa jälkeen ennen vain vielä jo eli olivat ollut voi mitä missä kuka "
        "miten minä sinä me te he mikä noin yksi kaksi enemmän kaikki eivät saa täytyy ilman kautta sillä tässä "
        "siinä joissa jossa joiden ettei mitkä mistä millä mihin minkä onko kuinka milloin vuoden joskus",
        "äö",
    ),
    "nb": (
        "Norwegian",
        "og det er som på en et å til av for at med de ikke den har jeg var han hun om fra ble vi kan men seg etter "
        "eller også over ved ut når være nå skal vil mellom hadde hvor hva denne dette disse mye mer ingen noe noen "
        "bli blir deres hans hennes inn opp mot under bare selv både kunne skulle uten deg meg du må hvilken hvem "
        "første",
        "æøå",
    ),
    "sk": (
        "Slovak",
        "vo na sa si zo do je sú bol bola bolo boli byť nie ale alebo že ktorý ktorá ktoré ktorí pre od po pri za ku "
        "ako jeho jej ich tento táto toto tým ten tá to aby už tiež však než pod nad medzi podľa čo keď len som ste "
        "môže tak kde pretože pred cez má majú iba všetky",
        "ľščťžýáíéúôäň",
    ),
    "hr": (
        "Croatian",
        "je na se da su za od sa kao ne iz koji koja koje koju ili bio bila bilo bili što ali do po li ovaj ova ovo "
        "taj ta to njegov njegova njihov nije biti sam smo ste može kako kada gdje samo više nakon prije između pri "
        "prema te već također ovog kojem kojoj svi sve nema jer još nisu",
        "čćđšž",
    ),
    "ca": (
        "Catalan",
        "el la els les un una que de del dels al als en amb per és són va han ha ser més no com també però aquest "
        "aquesta aquests aquestes seu seva seus seves es ho hi si quan on molt entre fins des sobre sense només qui "
        "jo tu ell ella nosaltres vostè us et em pel pels això té fou era està tots cap ara",
        "àèòçïü",
    ),
    "lt": (
        "Lithuanian",
        "ir yra kad į iš su ne tai kaip bet buvo nuo už jis ji jie kuris kuri kurie ar per tik dar jo jų šis ši šio "
        "tas ta arba pagal apie po prie iki dėl taip pat kai kur labai gali būti turi savo mes jūs aš nėra tačiau "
        "daugiau visi prieš tarp",
        "ąčęėįšųūž",
    ),
    "sl": (
        "Slovenian",
        "in je na se da so za od ki kot ne pa ali bil bila bilo bili po pri do iz tudi lahko ta to njegov njegova "
        "njihov ni biti sem smo ste kako ko kjer samo več med pred zaradi še bi ter vendar že če kar vse nekaj tem",
        "čšž",
    ),
    "lv": (
        "Latvian",
        "un ir ka no uz ar par bet kas nav arī pie pēc kā tas tā šis šī bija viņš viņa viņi to tiek vai līdz lai ja "
        "kur kad ļoti vairāk tikai savu jau es jūs mēs var kuru kurš kura pirms starp bez tomēr gan būt kopā visi "
        "jābūt šo",
        "āčēģīķļņšūž",
    ),
    "et": (
        "Estonian",
        "ja on ei et see oli ka kui oma mis selle või aga ning ta kes nad ma sa me te mida seda kuid siis nii veel "
        "väga üks kaks tema nende ole pole saab võib peab olla olid kas juba ainult pärast enne kuni üle all juures "
        "eest kohta järgi poolt sest kus millal need neid nagu rohkem ega mitte tuleb palun",
        "õäöü",
    ),
    "eu": (
        "Basque",
        "eta da ez bat du dira zen ziren dute zuen bere hau hori hura baina edo izan egin dago daude ere baino oso "
        "ditu zituen den dela diren beste bi zein nola non zer nor gero arte behar duen duten batean bezala haren "
        "haien horrek honek ezin guztiak",
        "",
    ),
    "sq": (
        "Albanian",
        "dhe në të një për me nga që është janë ka kanë nuk si por ose ai ajo ata kjo ky këto më pas para deri mund "
        "duhet ishte ishin kur ku çfarë kush se do ju ne ti shumë vetëm edhe kështu gjatë tij saj tyre",
        "ëç",
    ),
    "is": (
        "Icelandic",
        "og að í á er það sem ekki til um við með var af fyrir en hann hún þeir þær þau ég þú eru voru hefur hafa "
        "frá eða líka þegar þar hér svo eftir undir yfir milli verið vera þessi þetta þess þeirra hans hennar mjög "
        "meira allt allir bara hvað hver",
        "ðþáéíóúýæö",
    ),
    "cy": (
        "Welsh",
        "yn yr ar ei mae wedi cael am gan oedd ac ond eu bod fod gyda wrth yng ddim hyn roedd nad sydd dros hwn hon "
        "hefyd gael fel dywedodd cyn nid ni bydd gall rhwng oherwydd ydy ydych mwy eich ein",
        "ŵŷâêî",
    ),
    "tl": (
        "Tagalog",
        "ang ng sa mga na ay at ni si ito siya niya kay para nang hindi may mula bilang isang iyon kung pero din rin "
        "lang kanyang kaniyang sila kami tayo ako ikaw mo ko nito noong dahil ngunit lahat",
        "",
    ),
    "sw": (
        "Swahili",
        "na ya wa kwa ni katika za la cha kuwa hii huo huu hiyo alikuwa yake wake pia lakini kama au si sana watu "
        "hao wao yeye mimi sisi ili baada kabla tu mwaka ambayo ambao hata kila bila hapo huyo zake vya pamoja "
        "wakati hakuna",
        "",
    ),
}
# Scripts that several languages share. The most frequent language comes first, and wins if a text does not decide.
_CYRILLIC = {
    "ru": (
        "Russian",
        "и в не на что с по как это из его то от о был за у к же она они бы или если который для её",
        "ыэё",
    ),
    "uk": (
        "Ukrainian",
        "і в не на що з як це із його та від про був за у до й вона вони або якщо який для її є є цей",
        "іїєґ",
    ),
    "bg": (
        "Bulgarian",
        "и в не на че с по как това от му за у са той тя те ще или ако който със се да е след като",
        "",
    ),
    "sr": (
        "Serbian",
        "и у не на што са по као то из је од о био за к али она они би или ако који за се да су",
        "ђјљњћџ",
    ),
}
_ARABIC = {
    "ar": ("Arabic", "في من على إلى أن عن هذا هذه التي الذي كان كانت هو هي ما لا لم قد مع أو بين بعد عام كل", "ةىيك"),
    "fa": ("Persian", "در از به که این را با است آن برای یک خود تا بر بود شد های می شده هم نیز و یا او", "پچژگکی"),
    "ur": ("Urdu", "کے میں کی ہے اور سے کا کو اس نے پر یہ ہیں ایک تھا کہ بھی تھی وہ کر ان گیا تھے نہیں", "ٹڈڑںےہکیپچگ"),
}
_DEVANAGARI = {
    "hi": ("Hindi", "के में है की और से का को हैं पर इस एक ने यह था कि भी थी नहीं लिए कर हो गया जो थे", ""),
    "mr": ("Marathi", "आहे आणि या व हे ते ही होते होता मध्ये आहेत साठी ला तो की असे नाही पण त्या एक", ""),
    "ne": ("Nepali", "छ र मा को का यो हो पनि लाई छन् गरेको भएको थियो एक बाट तथा ले गर्न यस त्यो", ""),
}
# other scripts by their ranges
_SCRIPTS = {
    "am": ("Amharic", "\u1200-\u139f"),
    "bn": ("Bengali", "\u0980-\u09ff"),
    "el": ("Greek", "\u0370-\u03ff\u1f00-\u1fff"),
    "gu": ("Gujarati", "\u0a80-\u0aff"),
    "he": ("Hebrew", "\u0590-\u05ff"),
    "hy": ("Armenian", "\u0530-\u058f"),
    "ja": ("Japanese", "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"),
    "ka": ("Georgian", "\u10a0-\u10ff"),
    "km": ("Khmer", "\u1780-\u17ff"),
    "kn": ("Kannada", "\u0c80-\u0cff"),
    "ko": ("Korean", "\u1100-\u11ff\u3130-\u318f\uac00-\ud7af"),
    "lo": ("Lao", "\u0e80-\u0eff"),
    "ml": ("Malayalam", "\u0d00-\u0d7f"),
    "my": ("Burmese", "\u1000-\u109f"),
    "pa": ("Punjabi", "\u0a00-\u0a7f"),
    "si": ("Sinhala", "\u0d80-\u0dff"),
    "ta": ("Tamil", "\u0b80-\u0bff"),
    "te": ("Telugu", "\u0c00-\u0c7f"),
    "th": ("Thai", "\u0e00-\u0e7f"),
    "zh": ("Chinese", "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"),
}
LANGUAGES = {
    code: name
    for languages in (_LATIN, _CYRILLIC, _ARABIC, _DEVANAGARI, _SCRIPTS)
    for code, (name, *_) in languages.items()
}
# script: its languages and its letters
_SHARED = {
    "latin": (_LATIN, "A-Za-z\u00aa\u00ba\u00c0-\u024f\u1e00-\u1eff"),
    "arabic": (_ARABIC, "\u0600-\u065f\u066e-\u06d3\u06d5-\u06ef\u06fa-\u06ff\u0750-\u077f\ufb50-\ufdff\ufe70-\ufefe"),
    "cyrillic": (_CYRILLIC, "\u0400-\u052f"),
    "devanagari": (_DEVANAGARI, "\u0900-\u0963\u0971-\u097f"),
}
_DENSE = 3  # letters of an alphabet that say as much as one Chinese character

_STRETCH = 800  # characters that are read at the beginning, in the middle and at the end
_LEAST_WORDS = 4
_LEAST_FORMS = 2  # function words of a language other than English
_LEAST_SHARE = 0.12  # least share of words that are its function words or have a letter of its own
_LEAD = 1.5  # least ratio of its points to those of English
_LETTER = 0.5  # points of a word with a letter of the language, where a function word would have 1
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_WORD = re.compile(r"[^\W\d_]{2,}|[ldnscj](?=['’])", re.IGNORECASE)


def language_of(text: str) -> str | None:
    """Guess the language in which `text` is written.

    Return a code from `LANGUAGES`, such as "de", or None if there is too little evidence for any language.

    >>> language_of("Der Turm ist 300 m hoch und steht in Paris."), language_of("Gustave Eiffel, 1889")
    ('de', None)
    """
    if len(text) > 3 * _STRETCH:
        middle = len(text) // 2
        text = f"{text[:_STRETCH]} {text[middle : middle + _STRETCH]} {text[-_STRETCH:]}"
    text = _TAG.sub(" ", text)
    script = "latin" if text.isascii() else _script_of(text)
    if script not in _SHARED:
        return script
    if script != "latin":
        points, _ = _points(re.findall(f"[{_SHARED[script][1]}]+", text), script)
        return max(_SHARED[script][0], key=points.__getitem__)  # the first of those that are equal
    found = _WORD.findall(text)
    if len(found) < _LEAST_WORDS:
        return None
    capitals = text.isupper()
    words = [word.lower() for i, word in enumerate(found) if capitals or i == 0 or word.islower()]  # others: names
    points, seen = _points(words, script)
    english = points.pop("en")
    best = max(points, key=points.__getitem__)
    if english >= points[best]:
        return "en" if seen["en"] else None
    letters = set(_LATIN[best][2])
    own = seen[best].total() + sum(not word.isascii() and not letters.isdisjoint(word) for word in words)
    enough = len(seen[best]) >= _LEAST_FORMS and own >= _LEAST_SHARE * len(found)
    return best if enough and points[best] >= _LEAD * english else None


def _script_of(text: str) -> str:
    """Find the script of most letters: a key of `_SHARED`, or of `_SCRIPTS` if only one language uses the script."""
    sizes = Counter({"latin": 0})
    for char, count in Counter(text).items():
        sizes[_script_of_letter(char)] += count
    del sizes[""]
    sizes["zh"] *= _DENSE
    sizes["ja"] *= _DENSE
    if 10 * sizes["ja"] > sizes["zh"]:  # Japanese has Chinese characters, too
        sizes["ja"] += sizes.pop("zh")
    return max(sizes, key=lambda script: (sizes[script], script == "latin"))


@lru_cache(maxsize=1 << 14)
def _script_of_letter(char: str) -> str:
    """Find the script of one character, or "" if the character is not a letter of these scripts."""
    ranges = _SHARED | _SCRIPTS
    return next((script for script, (_, letters) in ranges.items() if re.match(f"[{letters}]", char)), "")


@cache
def _evidence(script: str) -> tuple[dict[str, list[tuple[str, float]]], dict[str, list[tuple[str, float]]]]:
    """Weight each function word and letter for each language. The fewer languages share it, the higher its weight."""
    languages = _SHARED[script][0]
    by_word: dict[str, list[str]] = {}
    by_letter: dict[str, list[str]] = {}
    for code, (_, words, letters) in languages.items():
        for word in words.split():
            by_word.setdefault(word, []).append(code)
        for letter in letters:
            by_letter.setdefault(letter, []).append(code)

    def valued(owners: dict[str, list[str]], most: float) -> dict[str, list[tuple[str, float]]]:
        return {
            item: [(code, most * log(1 + len(languages) / len(codes))) for code in codes]
            for item, codes in owners.items()
        }

    return valued(by_word, 1.0), valued(by_letter, _LETTER)


def _points(words: Sequence[str], script: str) -> tuple[dict[str, float], dict[str, Counter[str]]]:
    """Compute the points of `words` for each language of the script, and count its function words among them."""
    by_word, by_letter = _evidence(script)
    points = dict.fromkeys(_SHARED[script][0], 0.0)
    seen: dict[str, Counter[str]] = {code: Counter() for code in points}
    for word, count in Counter(words).items():
        for code, value in by_word.get(word, ()):
            points[code] += count * value
            seen[code][word] = count
        if not word.isascii():
            for letter in set(word):
                for code, value in by_letter.get(letter, ()):
                    points[code] += count * value
    return points, seen
