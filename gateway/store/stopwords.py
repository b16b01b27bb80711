"""Words that are in every sentence: whoever says one of them says nothing about the matter.

The most frequent function words of the languages that most people write in; accents do not count. A
missing one costs a line of memory that does not belong there, one too many a question that finds nothing: so
only words that are hardly ever the matter itself.
"""

from __future__ import annotations

from typing import Final

_WORDS: Final = """
a about after again all also am an and any anything are as ask at be because been before but by can could did do
does doing don done down each else even ever every few for from get give go going got had has have having he hello
her here hers hey hi him his how i if in into is it its just know let like ll make many may me might more most much
must my need no not now of off oh ok okay on one only or other our out over own please re really said same say see
she should show so some something such sure tell than thank thanks that the their them then there these they thing
things this those through to today too under until up us use very want was way we well were what when where which
while who whom whose why will with without would yes yet you your yours ve s t m d
aber alle als am an auch auf aus bei bin bis bist bitte da dann das dass dein deine dem den denn der des dich die
dies diese dieser dir doch du ein eine einem einen einer er es etwas fur gibt hab habe haben hallo hast hat heute
ich ihm ihn ihr im in ist ja jetzt kann kannst kein keine man mehr mein meine meinem meinen meiner mich mir mit muss
nach nein nicht noch nun nur ob oder sein seine sich sie sind so uber um und uns unser vom von vor war warum was weil
welche wenn wer wie wir wird wo zu zum zur
ai au aux avec c ce ces cette comme d dans de des du elle en est et eu il ils j je l la le les leur lui ma mais me
mes moi mon n ne nos notre nous on ou par pas plus pour qu quand que quel quelle qui quoi s sa se ses son sont sur
ta te tes toi ton tu un une vos votre vous y bonjour merci
al algo como con cual cuando de del donde el ella en era eres es esta este esto ha hay hola la las le lo los mas me
mi mis muy nos o para pero por porque que quien se ser si sin sobre son su sus tu tus un una uno y ya yo gracias
ao aos as com da das do dos e ela ele em essa esse eu foi isso ja mas meu minha na nao nas nem no nos nossa nosso o
os ou para pela pelo por quando que quem sao se seu sua tem um uma voce
alla allo anche che chi ci col come con cosa da dal dei del della di dove e gli ho i il io la le lei lo loro ma mi
mia mio ne nel nella non per perche piu quando quello questa questo sei si sono sta su sua suo ti tra tu tua tuo un
una uno
aan al als bij dan dat de deze die dit door een en er geen had heb hebben heeft het hij hoe hun ik in is ja je kan
maar me meer met mij mijn naar niet nog nu of om ons ook op te toch tot u uit van veel voor waar wat we wel wie wij
ze zich zij zijn
а без бы был была были было быть в вам вас весь во вот все всё вы где да даже для до его ее ей если есть еще же за
здесь и из или им их к как какая какие какой ко когда которая которые который кто ли мне может мой моя мое мои мы на
над надо нам нас не него нее нет ни них но ну о об один она они оно от по под после потом почему при привет про раз
с сам свой себя сейчас со спасибо так также там те тебе тебя тем то тобой того тоже той только том ты у уже хочу
такое такой такая такие сколько чего чей чем что чтобы эта эти это этого этой этот я
ані або але без був була було бути вам вас ви від він вона вони все вже де для до його її ще є за зі з із і й їх та
так там те ти то тут у це цей ця чи що щоб як який я мене мені мій моя
bir ben sen biz siz bu su ve ile icin ne mi mu da de ama cok daha gibi var yok evet hayir nasil neden nerede
"""

_PAIRS: Final = """
什么 怎么 怎樣 为什 為什 么样 這個 这个 那个 那個 一个 一個 一下 我的 你的 他的 她的 是不 不是 可以 能不 没有 沒有
我们 我們 你们 你們 的是 是什 请问 請問 告诉 告訴 知道 現在 现在 今天 你好 谢谢 謝謝
です ます した して する こと それ これ あれ ない なに どう どこ いつ から まで ので よう でし まし ませ たい とは
は何 何で ですか
있어 있는 하는 하고 그리 이것 저것 무엇 뭐야 어디 언제 어떻 니다 습니 합니
"""

STOPWORDS: Final = frozenset((*_WORDS.split(), *_PAIRS.split()))
