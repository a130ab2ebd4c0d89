"""Verbs, games, places and times of the phrasebook, as tables like those in `lexicon.py`."""

# Irregular verbs: French infinitive | present of je, tu, il, nous, vous, ils | past participle
IRREGULAR = """
boire     | bois bois boit buvons buvez boivent                         | bu
acheter   | achète achètes achète achetons achetez achètent             |
lire      | lis lis lit lisons lisez lisent                             | lu
écrire    | écris écris écrit écrivons écrivez écrivent                 | écrit
ouvrir    | ouvre ouvres ouvre ouvrons ouvrez ouvrent                   | ouvert
peindre   | peins peins peint peignons peignez peignent                 | peint
nettoyer  | nettoie nettoies nettoie nettoyons nettoyez nettoient       |
prendre   | prends prends prend prenons prenez prennent                 | pris
voir      | vois vois voit voyons voyez voient                          | vu
connaître | connais connais connaît connaissons connaissez connaissent  | connu
appeler   | appelle appelles appelle appelons appelez appellent         |
dormir    | dors dors dort dormons dormez dorment                       |
courir    | cours cours court courons courez courent                    | couru
rire      | ris ris rit rions riez rient                                | ri
sourire   | souris souris sourit sourions souriez sourient              | souri
partir    | pars pars part partons partez partent                       |
revenir   | reviens reviens revient revenons revenez reviennent         | revenu
sortir    | sors sors sort sortons sortez sortent                       |
lever     | lève lèves lève levons levez lèvent                         |
être      | suis es est sommes êtes sont                                | été
avoir     | ai as a avons avez ont                                      | eu
aller     | vais vas va allons allez vont                               |
pouvoir   | peux peux peut pouvons pouvez peuvent                       | pu
devoir    | dois dois doit devons devez doivent                         | dû
vouloir   | veux veux veut voulons voulez veulent                       | voulu
préférer  | préfère préfères préfère préférons préférez préfèrent       |
apprendre | apprends apprends apprend apprenons apprenez apprennent     | appris
savoir    | sais sais sait savons savez savent                          | su
"""

# English base/past/-ing, if irregular | French infinitive | kinds of objects; "habit": also done every day; "person":
# done to people; "event": only in the past; "state": never in progress; "lasting": not an event
ACTIONS = """
eat/ate                  | manger    | food eaten habit
drink/drank              | boire     | drunk habit
buy/bought               | acheter   | clothing vehicle furniture dish device reading tool -key umbrella ring gift toy
    ball doll instrument food eaten drunk flower rose house
sell/sold                | vendre    | vehicle furniture instrument house computer ring
look for                 | chercher  | tool lost ticket clothing book letter bag suitcase pet ball doll phone
find/found               | trouver   | tool lost ticket clothing book letter bag suitcase pet ball doll phone event
lose/lost                | perdre    | tool lost ticket phone bag suitcase glove hat scarf ball doll event
forget/forgot/forgetting | oublier   | tool lost ticket phone bag suitcase glove hat coat scarf book gift event
break/broke              | casser    | fragile window chair radio event
wash                     | laver     | clothing -shoe -tie -hat dish car bicycle truck motorcycle fruit -banana
    -orange tomato carrot dog habit
read/read                | lire      | reading letter poem story habit
write/wrote              | écrire    | letter poem story book
open                     | ouvrir    | opening container -basket bottle letter gift
close                    | fermer    | opening container -basket bottle book notebook
wear/wore                | porter    | clothing ring lasting
watch                    | regarder  | movie animal
listen to                | écouter   | song story concert radio
draw/drew                | dessiner  | animal flower rose tree building vehicle island
paint                    | peindre   | opening table chair desk shelf wardrobe house boat
repair                   | réparer   | vehicle device opening chair table toy instrument
clean                    | nettoyer  | room -garden opening table mirror car
cut/cut/cutting          | couper    | bread cheese meat ham cake pizza fruit tomato carrot mushroom
prepare                  | préparer  | soup salad coffee tea rice fish meat cake sandwich pizza
choose/chose             | choisir   | clothing reading gift pastry fruit movie ring hotel restaurant
take/took                | prendre   | transport umbrella key bag pen ticket
wait for                 | attendre  | transport person
see/saw                  | voir      | animal building island mountain lake river person state
visit                    | visiter   | sight -bridge museum island
hide/hid                 | cacher    | key ring letter gift toy chocolate cake
know/knew                | connaître | person song story state lasting
love                     | aimer     | person state lasting
call                     | appeler   | person
help                     | aider     | person habit
invite                   | inviter   | person
thank                    | remercier | person
"""

# The same for verbs with an indirect object: "to give the book to Anna"
GIFTS = """
give/gave     | donner   | gift book key pen pencil notebook flower rose toy ball doll apple pear cookie orange
    umbrella ticket bicycle
show          | montrer  | photo book letter house garden dress ring bicycle car ticket cat dog toy key bedroom
    kitchen
bring/brought | apporter | gift book flower umbrella food bread cheese soup salad water coffee tea wine chair
    newspaper
lend/lent     | prêter   | car bicycle book pen pencil umbrella coat bag suitcase guitar violin phone computer scarf
"""

# The same for verbs without an object; "être": the past is formed with it
MOVES = """
sleep/slept               | dormir       | habit
run/ran/running           | courir       | habit
swim/swam/swimming        | nager        | habit
dance                     | danser       | habit
sing/sang                 | chanter      | habit
work                      | travailler   | habit
walk                      | marcher      | habit
study                     | étudier      | habit
cook                      | cuisiner     | habit
play                      | jouer        | habit
cry                       | pleurer      |
laugh                     | rire         |
smile                     | sourire      |
arrive                    | arriver      | être
leave/left                | partir       | être
come back/came back       | revenir      | être
go out/went out           | sortir       | être habit
fall/fell                 | tomber       | être
stay                      | rester       | être
wake up/woke up/waking up | se réveiller | être habit
get up/got up/getting up  | se lever     | être habit
go to bed/went to bed     | se coucher   | être habit
rest                      | se reposer   | être habit
"""

# The same for verbs used in patterns by name
HELPERS = """
be/was                | être      |
have/had              | avoir     |
go/went               | aller     | être
can                   | pouvoir   |
must                  | devoir    |
want                  | vouloir   |
like                  | aimer     |
hate                  | détester  |
need                  | avoir     |
prefer/preferred      | préférer  |
live                  | habiter   |
speak/spoke           | parler    |
learn                 | apprendre |
think/thought         | penser    |
know/knew             | savoir    |
begin/began/beginning | commencer |
end                   | finir     |
cost/cost             | coûter    |
last                  | durer     |
"""

# to be ... | avoir ... | after ne ... pas
FEELINGS = """
hungry  | faim         | faim
thirsty | soif         | soif
cold    | froid        | froid
hot     | chaud        | chaud
sleepy  | sommeil      | sommeil
right   | raison       | raison
wrong   | tort         | tort
afraid  | peur         | peur
lucky   | de la chance | de chance
"""

# to play ... | jouer à ...
GAMES = """
soccer     | le football
tennis     | le tennis
basketball | le basket
rugby      | le rugby
chess      | les échecs
cards      | les cartes
"""

# English | French
LANGUAGES = """
French     | français
English    | anglais
Italian    | italien
German     | allemand
Spanish    | espagnol
Portuguese | portugais
"""

# English | French, with its article
COUNTRIES = """
France            | la France
Italy             | la Italie
Spain             | la Espagne
Germany           | la Allemagne
England           | la Angleterre
Belgium           | la Belgique
Switzerland       | la Suisse
Japan             | le Japon
Canada            | le Canada
Portugal          | le Portugal
Brazil            | le Brésil
the United States | les États-Unis
"""

# English | French | "snowy" if it snows there in winter
CITIES = """
Paris     | Paris     | snowy
Lyon      | Lyon      | snowy
Berlin    | Berlin    | snowy
Brussels  | Bruxelles | snowy
Geneva    | Genève    | snowy
Madrid    | Madrid    |
London    | Londres   | snowy
Rome      | Rome      |
Marseille | Marseille |
Lisbon    | Lisbonne  |
"""

DAYS = """
Monday    | lundi
Tuesday   | mardi
Wednesday | mercredi
Thursday  | jeudi
Friday    | vendredi
Saturday  | samedi
Sunday    | dimanche
"""

# English | French | season
MONTHS = """
January   | janvier   | winter
February  | février   | winter
March     | mars      | spring
April     | avril     | spring
May       | mai       | spring
June      | juin      | summer
July      | juillet   | summer
August    | août      | summer
September | septembre | autumn
October   | octobre   | autumn
November  | novembre  | autumn
December  | décembre  | winter
"""

# English | French after "in"
SEASONS = """
spring | au printemps
summer | en été
autumn   | en automne
winter | en hiver
"""

# English, a verb or an adjective | French | its infinitive | the rest, with its article | seasons
WEATHER = """
rain  | il pleut | pleuvoir |                  | spring autumn
snow  | il neige | neiger   |                  | winter
cold  | il fait  | faire    | froid            | winter autumn
hot   | il fait  | faire    | chaud            | summer
sunny | il y a   | y avoir  | de le soleil     | spring summer
windy | il y a   | y avoir  | de le vent       | spring autumn winter
foggy | il y a   | y avoir  | de le brouillard | autumn winter
"""

# English | French: when something happened, will happen, happens
PAST_TIMES = """
yesterday         | hier
this morning      | ce matin
yesterday evening | hier soir
last week         | la semaine dernière
last month        | le mois dernier
"""
FUTURE_TIMES = """
tomorrow         | demain
this evening     | ce soir
tomorrow morning | demain matin
next week        | la semaine prochaine
next month       | le mois prochain
"""
HABIT_TIMES = """
every day      | tous les jours
every morning  | tous les matins
every evening  | tous les soirs
in the morning | le matin
in the evening | le soir
"""

# English before the hour | French after the hour | whether the hour is past or next
MINUTES = """
five past        | cinq             | past
ten past         | dix              | past
a quarter past   | et quart         | past
twenty past      | vingt            | past
twenty-five past | vingt-cinq       | past
half past        | et demie         | past
twenty-five to   | moins vingt-cinq | to
twenty to        | moins vingt      | to
a quarter to     | moins le quart   | to
ten to           | moins dix        | to
five to          | moins cinq       | to
"""

# English | French | hours
PARTS_OF_DAY = """
in the morning   | du matin        | 1 2 3 4 5 6 7 8 9 10 11
in the afternoon | de l'après-midi | 1 2 3 4 5
in the evening   | du soir         | 6 7 8 9 10 11
"""

# One to nineteen, and the tens. Units are added to the French tens.
UNITS = [
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
UNITS_FR = [
    "un",
    "deux",
    "trois",
    "quatre",
    "cinq",
    "six",
    "sept",
    "huit",
    "neuf",
    "dix",
    "onze",
    "douze",
    "treize",
    "quatorze",
    "quinze",
    "seize",
    "dix-sept",
    "dix-huit",
    "dix-neuf",
]
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
TENS_FR = ["vingt", "trente", "quarante", "cinquante", "soixante", "soixante", "quatre-vingt", "quatre-vingt"]
