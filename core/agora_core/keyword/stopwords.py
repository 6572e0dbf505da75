"""Function words of the languages that have a tokenizer here: what a query does not ask for.

The Unicode tokenizer cuts and folds them before they are used, so an English "don't" stands as "don" and "t".
"""

from __future__ import annotations

from functools import cache
from typing import Final

from agora_core.keyword.analysis import fold_text, unicode_words

STOP_WORDS: Final[dict[str, str]] = {
    "arabic": """
        في من على إلى الى عن أن ان إن هذا هذه ذلك تلك التي الذي الذين ما ماذا متى كيف أين كم لماذا هل هو
        هي هم هما نحن أنا أنت كان كانت يكون تكون لا لم لن قد كما بعد قبل بين مع أو او ثم كل بعض غير أي
        حتى إذا عند منذ خلال حول ضد تم و يا لكن ولا وفي ومن وهو وهي وكان به بها فيه فيها منه منها له لها
        عليه عليها أيضا""",
    "catalan": """
        el la els les un una uns unes de del dels d l a al als en amb per pel pels i o que qui què quin
        quina quan on com no és són era ser ha han va van es se s hi ho li seu seva seus seves aquest
        aquesta aquests aquestes més molt també però si ja entre sobre fins des sense tot tots""",
    "danish": """
        og i jeg det at en den til er som på de med han af for ikke der var mig sig men et har om vi min
        havde ham hun nu over da fra du ud sin dem os op man hans hvor eller hvad skal selv her alle vil
        blev kunne ind når være dog noget ville jo deres efter ned skulle denne end dette mit også under
        have dig anden hende mine alt meget sit sine vor mod disse hvis din nogle hos blive mange ad
        bliver hendes været thi jer sådan hvem hvilken hvilket hvornår""",
    "dutch": """
        de en van ik te dat die in een hij het niet zijn is was op aan met als voor had er maar om hem
        dan zou of wat mijn men dit zo door over ze zich bij ook tot je mij uit der daar haar naar heb
        hoe heeft hebben deze u want nog zal me zij nu ge geen omdat iets worden toch al waren veel meer
        doen toen moet ben zonder kan hun dus alles onder ja eens hier wie werd altijd doch wordt wezen
        kunnen ons zelf tegen na reeds wil kon niets uw iemand geweest andere waar welke welk wanneer
        waarom""",
    "english": """
        a about above after again against all am an and any are aren as at be because been before being
        below between both but by can cannot could couldn d did didn do does doesn doing don down during
        each few for from further had hadn has hasn have haven having he her here hers herself him
        himself his how i if in into is isn it its itself just ll m me more most mustn my myself no nor
        not now of off on once only or other our ours ourselves out over own re s same shan she should
        shouldn so some such t than that the their theirs them themselves then there these they this
        those through to too under until up ve very was wasn we were weren what when where which while
        who whom why will with won would wouldn you your yours yourself yourselves""",
    "finnish": """
        olla olen on ovat oli olivat ollut ole ei en et emme ette eivät ja tai mutta että jos kun koska
        niin kuin myös vain nyt se sen sitä siitä siinä ne niiden niitä tämä tämän tätä tässä tästä nämä
        tuo hän hänen hänet he heidän minä minun sinä me te joka jonka jota josta jossa jotka mikä mitä
        minkä missä mistä milloin kuka ketkä miten miksi kuinka mukaan kanssa sekä eli vaan yli alle
        ennen jälkeen noin""",
    "french": """
        le la les l un une des du de d au aux à en dans par pour sur sous avec sans entre vers chez et
        ou où mais donc or ni car que qu qui quoi dont quel quelle quels quelles lequel laquelle quand
        comment combien pourquoi ce cet cette ces c cela ça il ils elle elles on nous vous je j tu me m
        te t se s lui leur leurs mon ma mes ton ta tes son sa ses notre nos votre vos ne n pas plus très
        y est sont était étaient être été es suis sommes êtes ont a avait avaient avoir ai as avons avez
        eu fait si tout tous toute toutes même aussi comme""",
    "german": """
        der die das den dem des ein eine einen einem einer eines und oder aber denn sondern wenn als wie
        dass daß ob weil während in im ins an am auf aus bei beim mit nach seit von vom zu zum zur über
        unter vor hinter neben zwischen durch für gegen ohne um bis ich du er sie es wir ihr mich mir
        dich dir ihn ihm ihnen uns euch sich mein meine dein seine sein seiner seinen seinem seines ihre
        ihrer ihren ihrem ihres unser euer dieser diese dieses diesen diesem jener jene welche welcher
        welches welchen welchem wer was wo wann warum wieso woher wohin wieviel viel viele ist sind war
        waren wird werden wurde wurden bin bist hat haben hatte hatten habe kann können konnte soll
        sollte muss nicht kein keine keinen keiner nur auch noch schon so da dort hier man selbst sehr
        mehr dann""",
    "greek": """
        ο η το οι τα του της των τον την τους τις στο στη στην στον στα στους στις σε με για από απο και
        κι ή ότι οτι που πού ποιος ποια ποιο ποιοι ποιες πόσο πόσα πόσοι πότε πώς πως τι γιατί να θα δεν
        μη μην είναι ήταν είχε έχει έχουν ένα ένας μια μία ενός μιας αυτό αυτή αυτός αυτά αυτές αυτοί
        αυτού αυτής αυτών αλλά αν όταν ως όπως μετά πριν κατά προς μεταξύ χωρίς πιο πολύ μας σας μου σου""",
    "hindi": """
        का के की को में से पर ने और या है हैं था थे थी हो होता होती होते हुआ हुई हुए कि यह वह ये वे इस
        उस इन उन इसके इसकी इसका उसके उसकी उसका उनके उनकी उनका अपने अपनी अपना जो जिस जिसे जिसके जिन तो भी
        ही न नहीं एक कर करने करना करता करते किया किए गया गए गई रहा रहे रही लिए साथ तक बाद द्वारा क्या
        कौन कौनसा कब कहाँ कहां कैसे क्यों कितने कितना कितनी किस किसने किसके जब तब अगर लेकिन कुछ सभी दिया
        जा जाता जाती जाते""",
    "hungarian": """
        a az egy és vagy de hogy ha mint is nem ne csak már még meg el ki be fel le át ez ezt ezek azt
        azok amely amelyek aki akik ami mi mit mikor hol kik hogyan miért melyik mennyi van vannak volt
        voltak lesz lenne én te ő ti ők után előtt között alatt szerint által ezen ezért így úgy nagyon
        minden más sem olyan ilyen""",
    "indonesian": """
        yang dan di ke dari untuk pada dengan adalah ini itu atau oleh dalam sebagai akan tidak bukan
        juga karena telah sudah dapat bisa ada para bahwa saya kami kita dia mereka anda ia apa siapa
        kapan mana bagaimana mengapa berapa lebih sangat antara saat ketika setelah sebelum seperti
        hanya namun tetapi jika maka secara tersebut nya""",
    "italian": """
        il lo la i gli le l un uno una di del dello della dei degli delle dell a al allo alla ai agli
        alle all da dal dallo dalla dai dagli dalle dall in nel nello nella nei negli nelle nell su sul
        sullo sulla sui sugli sulle sull con per tra fra e ed o ma se che chi cui non come dove quando
        perché quale quali quanto quanta quanti quante cosa questo questa questi queste quello quella
        quelli quelle è sono era erano essere stato stata stati state ha hanno aveva avevano avere ho
        hai abbiamo si ci vi ne mi ti lui lei noi voi loro io tu suo sua suoi sue mio mia tuo nostro
        vostro più anche molto tutto tutti c d""",
    "norwegian": """
        og i jeg det at en et den til er som på de med han av ikke der så var meg seg men ett har om vi
        min mitt ha hadde hun nå over da ved fra du ut sin dem oss opp man kan hans hvor eller hva skal
        selv sjøl her alle vil bli ble blitt kunne inn når være kom noen noe ville dere deres kun ja
        etter ned skulle denne for deg si sine sitt mot å meget hvorfor dette disse uten hvordan ingen
        din ditt blir samme hvilken hvilke sånn inni mellom vår hver hvem vors hvis både bare enn fordi
        før mange også slik vært begge siden""",
    "portuguese": """
        o a os as um uma uns umas de do da dos das em no na nos nas num numa ao aos à às por pelo pela
        pelos pelas para com sem sob sobre entre até desde e ou mas se que quem qual quais quando onde
        como porque quê quanto quanta quantos quantas não é são era eram ser foi foram sido está estão
        estava tem têm tinha ter há havia eu tu ele ela eles elas nós vós me te lhe lhes seu sua seus
        suas meu minha nosso nossa este esta estes estas esse essa isso isto aquele aquela aquilo mais
        muito também já só""",
    "romanian": """
        de la în in din pe cu pentru prin despre spre sub peste între până după fără către un o unei
        unui unor al a ai ale lui cel cea cei cele și si sau dar ci că ca să se nu este e sunt era erau
        fi fost au am avea are aveau care ce cine când unde cum cât câte câți câtă acest această acești
        aceste acel acea acela aceea lor ei el ea eu tu noi voi îl îi le mai foarte tot toate toți iar
        dacă ori nici își sa său sale""",
    "russian": """
        и в во не что он на я с со как а то все она так его но да ты к у же вы за бы по только ее её мне
        было вот от меня еще ещё нет о об обо из ему теперь когда даже ну ли если уже или ни быть был
        него до вас нибудь вам ведь там потом себя ничего ей может они тут где есть надо ней для мы тебя
        их чем была сам чтоб без будто чего раз тоже себе под будет ж кто этот того потому этого какой
        какая какие каком каким какое какую каких ним здесь этом один почти мой тем чтобы нее были куда
        зачем сказать всех можно при два другой хоть после над больше тот через эти нас про них какого
        много разве эту моя свою этой перед иногда лучше чуть том такой им более всегда конечно всю
        между это является который которая которое которые которого которой которых сколько почему""",
    "spanish": """
        el la los las lo un una unos unas de del al a en con por para sin sobre entre hasta desde hacia
        según durante y e o u pero sino si que qué quien quién quienes quiénes cual cuál cuales cuáles
        cuando cuándo donde dónde como cómo cuanto cuánto cuanta cuánta cuantos cuántos cuantas cuántas
        porque no ni es son era eran ser fue fueron sido está están estaba estaban estar ha han había
        habían haber he hay tiene tienen tenía yo tú él ella ello ellos ellas nosotros vosotros usted
        ustedes me te se le les nos os mi mis tu tus su sus nuestro nuestra este esta estos estas esto
        ese esa esos esas eso aquel aquella más muy también ya todo todos toda todas""",
    "swedish": """
        och det att i en jag hon som han på den med var sig för så till är men ett om hade de av icke
        mig du henne då sin nu har inte hans honom skulle hennes där min man ej vid kunde något från ut
        när efter upp vi dem vara vad över än dig kan sina här ha mot alla under någon eller allt mycket
        sedan ju denna själv detta åt utan varit hur ingen mitt ni bli blev oss din dessa några deras
        blir mina samma vilken er sådan vår blivit dess inom mellan sådant varför varje vilka ditt vem
        vilket sitta vart dina vars vårt våra ert era vilkas""",
    "tamil": """
        மற்றும் ஒரு இது அது இந்த அந்த என்று என என்ற உள்ள உள்ளது இருந்து மூலம் போன்ற அல்லது ஆனால் எந்த
        எப்போது எங்கு எப்படி ஏன் யார் என்ன எத்தனை இல்லை இருந்தது ஆகும் பின்னர் முன் வரை கொண்ட தான் அவர்
        அவர்கள் இவர் நான் நீ""",
    "turkish": """
        ve ile bir bu şu o da de ki mi mı mu mü için gibi kadar daha en çok az ama fakat ancak veya ya
        hem ne neden niçin nasıl nerede nereye nereden kim kime kimin hangi hangisi kaç zaman değil var
        yok olan olarak oldu olduğu olduğunu olur idi ise her bazı tüm bütün ben sen biz siz onlar onu
        ona onun bunu buna bunun sonra önce üzerinde göre diye tarafından""",
}


@cache
def stop_words(language: str) -> frozenset[str]:
    """Return the stop words of a language, none where no list is kept for it."""
    return frozenset(unicode_words(fold_text(STOP_WORDS.get(language, ""))))
