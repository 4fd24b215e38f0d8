"""The words of a query that say nothing of what is looked for, in the language it is asked in."""

# ruff: noqa: RUF001 - Russian and Ukrainian words of one letter are what they look like

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Final

STOP_WORDS: Final = frozenset(
    """
    a about after again all also am an and any are as at be because been before being between both
    but by can could did do does doing done for from further had has have having he her here hers
    him his how i if in into is it its itself just let like may me might more most must my no nor
    not now of off on once only or other our ours out over own please same shall she should so some
    such than that the their theirs them then there these they this those through to too under until
    up us very was we were what when where which while who whom whose why will with would you your
    yours ll ve re don didn doesn isn wasn weren won wouldn couldn shouldn s t d m
    """.split()  # noqa: SIM905 – words are easier to read without quotes
)
"""English ones."""

_OTHERS: Final[Mapping[str, str]] = {
    "Danish, Norwegian": "af alle at blev blir bliver da de dem den denne deres det dette dig din dit "
    "du eg ein ej eller en er et fra få ham han hans har havde hende hendes hun hva hvad hvem hver "
    "hvilke hvilken hvilket hvis hvor hvordan hvorfor hvornår når ikke ind jeg kan kunne med meg mig "
    "min mit mod må ned noen nogen noget nå og også om op opp os oss over på selv sig sin skal skulle "
    "som så til ud under var ved vi vil ville vår være været",
    "Dutch": "aan al alle als altijd bij ben dan dat de der deze die dit doen door dus een er geen "
    "geweest haar had heb hebben heeft hem het hier hij hoe hun iets ik in is je jij jouw kan kon "
    "kunnen maar me mee meer men met mij mijn moet moeten na naar niet nog nu of om omdat onder ons "
    "onze ook op over te tegen toch toen tot uit uw van veel voor waar waarom wanneer waren was wat "
    "we welk welke werd wie wij wil worden wordt zal ze zich zij zijn zo zonder zou",
    "French": "ai as au aucun aussi aux avait avec avez avoir avons c ce ceci cela celle celui ces "
    "cet cette chez ci combien comme comment d dans de depuis des dit donc dont du elle elles en est "
    "estce et eu eux faire fait faut il ils j je jusqu l la là le les leur leurs lui m ma mais me mes "
    "moi mon n ne nos notre nous on ont ou où par pas peut plus pour pourquoi puis qu quand que quel "
    "quelle quelles quels qui quoi s sa sans se sera ses si son sont sous suis sur t ta te tes toi "
    "ton tous tout toute très tu un une va vers veut vos votre vous y à ça été était être",
    "German": "aber alle allem allen aller alles als also am an ander andere anderen auch auf aus bei "
    "beim bin bis bist bitte da damit dann das dass dein deine dem den denn der des dich die dies "
    "diese diesem diesen dieser dieses dir doch dort du durch ein eine einem einen einer eines er es "
    "etwas euch euer eure für gegen habe haben hat hatte hatten hier hinter ich ihm ihn ihnen ihr "
    "ihre ihrem ihren ihrer im in ins ist jede jedem jeden jeder jedes jetzt kann kannst können "
    "könnte man mein meine meinem meinen meiner mich mir mit muss musste müssen nach nicht noch nun "
    "nur ob oder ohne schon sehr sein seine seinem seinen seiner seit sich sie sind so soll sollen "
    "sollte um und uns unser unsere unter viel vom von vor wann war waren warst warum was wegen "
    "weil welche welchem welchen welcher welches wem wen wenn wer werde werden wessen wie wieder "
    "wieso will wir wird wo wohin woher wurde wurden während würde zu zum zur zwischen über",
    "Italian": "a agli ai al alla alle allo anche avere c che chi ci come con cosa così da dagli dai "
    "dal dalla dalle dallo degli dei del dell della delle dello di dove e ed era essere fa fra gli "
    "ha hai hanno ho i il in io l la le lei li lo loro lui ma mi mia mie miei mio ne negli nei nel "
    "nella nelle nello noi non nostra nostro o ogni per perché più qual quale quali quando quanta "
    "quante quanti quanto quella quello questa queste questi questo se sei si sia sono sta su sua "
    "sue sugli sui sul sulla sulle suo ti tra tu tua tuo un una uno vi voi è",
    "Polish": "a albo ale bez bo był była było być ci co czy czyj dla do gdzie go i ich ile im ja jak "
    "jaka jaki jakie jakim je jego jej jest jestem już kiedy kogo kto która które który którą którego "
    "której którym którzy lub ma mam mi mnie moja moje mój mu my na nad nam nas nie niego niej nim o "
    "od on ona one oni oraz po pod przed przez przy się są ta tak także tam te tego tej ten to tu "
    "tych tylko tym u w we więc wy z za ze że",
    "Portuguese": "a ao aos as até com como da das de dela dele deles depois do dos e ela elas ele "
    "eles em entre era essa esse esta estava este está estão eu foi foram há isso isto já lhe mais "
    "mas me meu meus minha muito na nas nem no nos nossa nosso não o onde os ou para pela pelas pelo "
    "pelos pode por porque qual quais quando quanto quantos quantas que quem se sem ser seu seus sua "
    "suas são só também tem têm teve ter um uma você vocês à às é",
    "Spanish": "a al algo ante antes así aún aunque cada como con cual cuando cuál cuáles cuándo "
    "cuánto cuántos cuántas cómo de del desde donde dónde e el ella ellas ellos en entre era es esa "
    "ese eso esta estaba estas este esto estos está están fue fueron ha han hasta hay he hizo la las "
    "le les lo los me mi mis muy más ni no nos nuestra nuestro o os otra otro para pero por porque "
    "puede qué que quien quién quiénes se sea ser si sido sin sobre son su sus sí también te tiene "
    "tienen todo todos tu tus un una uno unos usted y ya yo él",
    "Swedish": "alla att av bara blev bli blir då de dem den denna deras dess det detta dig din ditt "
    "du där efter ej eller en er ett från för ha hade han hans har henne hennes hon hur här i icke "
    "ingen inte jag kan kunde man med mellan men mig min mitt mot mycket måste ni nu nån någon något "
    "när och om oss på sedan sig sin sina skall ska skulle som så till under upp ut utan vad var "
    "varför vart vem vi vid vilka vilken vilket vår vårt är över",
    "Russian, Ukrainian": "а але без бы был была были было быть в вам вас весь від він вона воно вони "
    "во вот все всех вы где для до его ее если есть еще ж же за и из или им их й к как какая какие "
    "какой когда коли который которая которые кто куда ли меня мені мне мной может мой моя моё мы на "
    "над не него нет ни но о об он она они оно от по под при про с свой себя со та так такой там те "
    "тебя то того тоже только тот ты у уже хто чего чем что чтобы чья чьё чей чому це эта эти это "
    "этот я як яка який які є і із й що щоб",
}
"""By language, those of others; a word may be one in several."""

_PAIRS: Final = frozenset(
    """
    什么 么时 时候 么是 是什 了什 做什 有什 为什 哪里 哪些 哪个 哪儿 哪种 在哪 怎么 么样 怎样 如何
    多少 多久 几点 几个 是否 是谁 谁是 因为 所以 但是 如果 还是 或者 以及 这个 那个 这些 那些 这样 那样
    我们 你们 他们 她们 它们 自己 可以 应该 一个 一下 没有 还有 的时
    什麼 麼時 時候 麼是 了什 為什 哪裡 怎麼 麼樣 幾點 幾個 誰是 是誰 因為 還是 這個 這些 這樣 我們 你們
    他們 應該 沒有 還有 的時
    です ます すか ませ せん でし した して てい いる いま る時 いつ どこ どう どの だれ 誰が 誰は なに 何が
    何を 何で 何の 何は なぜ から まで こと もの この その あの これ それ あれ ここ そこ ある あり りま くだ
    ださ さい だっ れる られ のは とは には では する よう うに つい いて いう とき
    어디 언제 누구 무엇 뭐가 어떤 어떻 떻게 있나 나요 습니 니까 까요 입니 합니 니다 하는 에서 으로 하고
    그리 리고 하지 지만 있는 있습 에게 한테 까지 부터 는지 인가 가요 세요
    """.split()  # noqa: SIM905 – words are easier to read without quotes
)
"""Of Chinese, Japanese and Korean, as a query has them: cut into pairs of characters."""

_ALSO_ENGLISH: Final = frozenset(
    """
    af ai ait al ale alle alt ante aos as at att aux av bei ben bin bis bon c car ce che chez ci
    co com comme comment como con d da dai dal dan dans de del dem den der des die dig din dir
    dit do dont dos dove du e eg el ella elle em en er era es est et eu eux fa fait fin fra fun
    gas gli go ha hade ham han hans has hat hay he hem hen hoe hub hum hun i il im in ins io is
    it j jak je jest l la las le les li lo los lui m ma maar mais mam man mas me mee meer men
    met meta mi min mir mis mit mm mod moi mon mot mu my n na nach nad nam nas ne ned ni nim no
    nos notre nu num o ob od of old om on one op or os oss ou out over pan par pas per plus po
    pod pour puis pure pus qu re s sa san sans se sea sei sein sem ser sera ses si sia sig sin
    ska so soll son sons sous su sub sue sur sus t ta tak tam te tem ten the ti til till todo
    todos ton tot tous tout toute tra tu u ud um un una und under uni uno up us ut uw va van var
    vers vi via viel vil vis vor w war was we were wil will won x y ya yo z za zo zu zum
    """.split()  # noqa: SIM905 – words are easier to read without quotes
)
"""What also stands in English texts, as a word, a name or an abbreviation: it tells no language."""


def without_stop_words(words: Sequence[str]) -> list[str]:
    """Return the words that say something, in order; none where they all say nothing.

    Of which language they are, they tell themselves: in "die casting" the first is what is meant,
    in "wo liegt die Akte" it says nothing.

    Args:
        words: Lower-case, each once.
    """
    silent = _silent_otherwise(frozenset(words))
    return [word for word in words if not (word in STOP_WORDS or word in _PAIRS or word in silent)]


def is_of_other_language(words: Iterable[str]) -> bool:
    """Whether the words, lower-case, are more likely of a language listed here than of English."""
    return bool(_likely_languages(frozenset(words)))


def _silent_otherwise(words: frozenset[str]) -> frozenset[str]:
    """Return those of the words that say nothing in the language that they are likely of.

    Where that may be one of several, a word that could be English says nothing in all of them.
    """
    likely = _likely_languages(words)
    if not likely:
        return frozenset()
    return frozenset(
        word
        for word in words
        if any(word in _telling()[name] for name in likely)
        or all(word in _listed()[name] for name in likely)
    )


def _likely_languages(words: frozenset[str]) -> list[str]:
    """Return the languages that most of the words are of, where fewer are of English."""
    if words.isdisjoint(_telling_of_any()):
        return []
    told = {language: len(words & telling) for language, telling in _telling().items()}
    best = max(told.values())
    return [
        language
        for language, count in told.items()
        if count == best > len(words & (STOP_WORDS - _listed()[language]))
    ]


@cache
def _listed() -> Mapping[str, frozenset[str]]:
    return {language: frozenset(listed.split()) for language, listed in _OTHERS.items()}


@cache
def _telling() -> Mapping[str, frozenset[str]]:
    """Return by language the words that stand in no English text."""
    return {language: words - _ALSO_ENGLISH - STOP_WORDS for language, words in _listed().items()}


@cache
def _telling_of_any() -> frozenset[str]:
    return frozenset(word for telling in _telling().values() for word in telling)
