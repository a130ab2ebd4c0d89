"""The words of the phrasebook as tables, one word per line, columns separated by `|`. `words.py` reads them.

Only irregular forms are listed, next to their word; `english.py` and `french.py` build the regular ones. The last
column names the kinds that a noun belongs to, or that an adjective or verb goes with, which keeps the sentences
sensible. `-word` excludes one noun.
"""

# name | gender
NAMES = """
Paul    | m
Marc    | m
Pierre  | m
Antoine | m
Julien  | m
Olivier | m
Victor  | m
Simon   | m
Anna    | f
Alice   | f
Emma    | f
Marie   | f
Julie   | f
Sophie  | f
Claire  | f
Lucie   | f
"""

# people addressed, in English | in French | gender, s or p | tu or vous. First names are also used, with tu.
CALLED = """
Mom       | maman       | fs | tu
Dad       | papa        | ms | tu
sir       | monsieur    | ms | vous
madam     | madame      | fs | vous
children  | les enfants | mp | vous
boys      | les garçons | mp | vous
girls     | les filles  | fp | vous
gentlemen | messieurs   | mp | vous
ladies    | mesdames    | fp | vous
"""

# English/plural | French/plural gender | kinds
NOUNS = """
apple           | pomme f                   | fruit small food
pear            | poire f                   | fruit small food
orange          | orange f                  | fruit small food
banana          | banane f                  | fruit small food
strawberry      | fraise f                  | fruit small food
peach           | pêche f                   | fruit small food
tomato/tomatoes | tomate f                  | vegetable small food
carrot          | carotte f                 | vegetable small food
mushroom        | champignon m              | vegetable small food
egg             | œuf m                     | food small
cake            | gâteau m                  | pastry food
cookie          | biscuit m                 | pastry food small
croissant       | croissant m               | pastry food small
sandwich        | sandwich m                | pastry food small
pizza           | pizza f                   | pastry food
bread           | pain m                    | mass eaten fresh
cheese          | fromage m                 | mass eaten
meat            | viande f                  | mass eaten fresh
rice            | riz m                     | mass eaten served
soup            | soupe f                   | mass eaten served
chocolate       | chocolat m                | mass eaten
ham             | jambon m                  | mass eaten
fish            | poisson m                 | mass eaten fresh
salad           | salade f                  | mass eaten fresh
jam             | confiture f               | mass eaten
water           | eau f                     | mass drunk served
milk            | lait m                    | mass drunk served fresh
coffee          | café m                    | mass drunk served
tea             | thé m                     | mass drunk served
wine            | vin m                     | mass drunk
beer            | bière f                   | mass drunk
lemonade        | limonade f                | mass drunk
orange juice    | jus d'orange m            | mass drunk
hat             | chapeau m                 | clothing small
coat            | manteau m                 | clothing
shirt           | chemise f                 | clothing
dress           | robe f                    | clothing ladies
skirt           | jupe f                    | clothing ladies
jacket          | veste f                   | clothing
scarf/scarves   | écharpe f                 | clothing small
tie             | cravate f                 | clothing small
shoe            | chaussure f               | clothing plural small
sock            | chaussette f              | clothing plural small
glove           | gant m                    | clothing plural small
car             | voiture f                 | vehicle
bicycle         | vélo m                    | vehicle
boat            | bateau m                  | vehicle
truck           | camion m                  | vehicle
motorcycle      | moto f                    | vehicle
train           | train m                   | transport
bus             | bus m                     | transport
plane           | avion m                   | transport
table           | table f                   | furniture surface
desk            | bureau m                  | furniture surface
bed             | lit m                     | furniture surface seat
sofa            | canapé m                  | furniture surface seat
armchair        | fauteuil m                | furniture surface seat
chair           | chaise f                  | furniture surface seat
shelf/shelves   | étagère f                 | furniture
wardrobe        | armoire f                 | furniture
mirror          | miroir m                  | decoration fragile
lamp            | lampe f                   | device fragile
door            | porte f                   | opening
window          | fenêtre f                 | opening
book            | livre m                   | text reading small
newspaper       | journal m                 | text reading small
magazine        | magazine m                | text reading small
letter          | lettre f                  | text written small
poem            | poème m                   | text written
story           | histoire f                | text written told
song            | chanson f                 | told heard
movie           | film m                    | told show
concert         | concert m                 | show heard
photo           | photo f                   | thing small
box             | boîte f                   | container
bag             | sac m                     | container
basket          | panier m                  | container
suitcase        | valise f                  | container
drawer          | tiroir m                  | container fixed
bottle          | bouteille f               | vessel small fragile
cup             | tasse f                   | vessel dish small fragile
plate           | assiette f                | dish small fragile
knife/knives    | couteau m                 | dish small
fork            | fourchette f              | dish small
spoon           | cuillère f                | dish small
phone           | téléphone m               | device small
computer        | ordinateur m              | device
radio           | radio f                   | device heard
pen             | stylo m                   | tool small
pencil          | crayon m                  | tool small
notebook        | cahier m                  | tool small
key             | clé f                     | tool small lost
umbrella        | parapluie m               | thing small lost
ring            | bague f                   | thing small lost
ticket          | billet m                  | small lost
gift            | cadeau m                  | thing small
toy             | jouet m                   | thing small fragile
ball            | ballon m                  | thing small
doll            | poupée f                  | thing small
guitar          | guitare f                 | instrument
piano           | piano m                   | instrument
violin          | violon m                  | instrument
flute           | flûte f                   | instrument
cat             | chat m                    | pet animal
dog             | chien m                   | pet animal
rabbit          | lapin m                   | pet animal
hamster         | hamster m                 | pet animal
turtle          | tortue f                  | pet animal
bird            | oiseau m                  | animal flying
owl             | hibou/hiboux m            | animal flying
duck            | canard m                  | animal farm
hen             | poule f                   | animal farm
goat            | chèvre f                  | animal farm
cow             | vache f                   | animal farm
horse           | cheval m                  | animal farm
hedgehog        | hérisson m                | animal
mouse/mice      | souris f                  | animal
frog            | grenouille f              | animal
elephant        | éléphant m                | wild animal
wolf/wolves     | loup m                    | wild animal
lion            | lion m                    | wild animal
flower          | fleur f                   | plant
rose            | rose f                    | plant
tree            | arbre m                   | tree
house           | maison f                  | building home
apartment       | appartement m             | building home
castle          | château m                 | building sight
church          | église f                  | building sight
tower           | tour f                    | building sight
bridge          | pont m                    | building sight
garden          | jardin m                  | home room
kitchen         | cuisine f                 | room
bedroom         | chambre f                 | room
living room     | salon m                   | room
museum          | musée m                   | public goal sight
hotel           | hôtel m                   | public goal
restaurant      | restaurant m              | public goal shop
school          | école f                   | public
bank            | banque f                  | public shop goal
bakery          | boulangerie f             | public shop goal
pharmacy        | pharmacie f               | public shop goal
library         | bibliothèque f            | public shop goal
market          | marché m                  | goal
station         | gare f                    | public goal
hospital        | hôpital m                 | public goal
theater         | théâtre m                 | public goal
beach           | plage f                   | nature goal
park            | parc m                    | nature goal
lake            | lac m                     | nature
river           | rivière f                 | nature
forest          | forêt f                   | nature
island          | île f                     | nature
mountain        | montagne f                | nature
idea            | idée f                    | thought
question        | question f                | thought task
problem         | problème m                | task
lesson          | leçon f                   | task show
exercise        | exercice m                | task
man/men         | homme m                   | adult
woman/women     | femme f                   | adult
boy             | garçon m                  | young
girl            | fille f                   | young
king            | roi m                     | royal
queen           | reine f                   | royal
baby            | bébé m                    | infant
child/children  | enfant m                  | children
parent          | parent m                  | parents
husband         | mari m                    | husband
wife            | femme f                   | wife
father          | père m                    | kin one
mother          | mère f                    | kin one
brother         | frère m                   | kin several
sister          | sœur f                    | kin several
son             | fils m                    | kin several
daughter        | fille f                   | kin several
uncle           | oncle m                   | kin several
aunt            | tante f                   | kin several
grandfather     | grand-père/grands-pères m | kin one
grandmother     | grand-mère/grands-mères f | kin one
"""

# English | French: masculine, feminine | used before a name: "my friend Anna"
COMPANIONS = """
friend   | ami     amie
cousin   | cousin  cousine
neighbor | voisin  voisine
"""

# English | French: masculine, feminine
PROFESSIONS = """
nurse       | infirmier     infirmière
student     | étudiant      étudiante
baker       | boulanger     boulangère
lawyer      | avocat        avocate
singer      | chanteur      chanteuse
musician    | musicien      musicienne
farmer      | agriculteur   agricultrice
dentist     | dentiste      dentiste
journalist  | journaliste   journaliste
hairdresser | coiffeur      coiffeuse
"""

# A word for several kinds | the kinds
GROUPS = """
colored  | clothing vehicle -boat sofa armchair chair lamp door box bag suitcase cup plate notebook umbrella ball
nation   | vehicle -boat told reading people person
useful   | tool umbrella knife bag car bicycle phone computer book lesson idea exercise
peaceful | beach park lake island garden hotel bedroom house apartment
"""

# English | French: masculine/feminine/plural/before a vowel, if irregular | place: before or after the noun, or "be":
# only with the verb | comparative (empty: with "more"; -: never compared) | kinds of nouns. "people": people, after
# "to be"; "person": also before man, woman, boy and girl; "attribute": never after "be"; "passing": temporary.
ADJECTIVES = """
big         | grand                            | before | bigger   | vehicle furniture mirror lamp building container
    tree room public island lake forest garden
small       | petit                            | before | smaller  | vehicle furniture mirror lamp building -tower
    container plant tree room public animal fruit island lake beach
old         | vieux/vieille/vieux/vieil        | before | older    | vehicle furniture building hotel school clothing
    device reading tree instrument people adult dog cat horse
new         | nouveau/nouvelle/nouveaux/nouvel | before | -        | attribute vehicle furniture clothing device
    instrument reading museum hotel restaurant school house apartment bridge problem idea question
beautiful   | beau/belle/beaux/bel             | before |          | building tree flower rose room nature flying
    horse instrument song story photo dress
pretty      | joli                             | before | prettier | clothing -sock flower rose house garden doll ring
    box bird
good        | bon/bonne                        | before | -        | attribute told book magazine restaurant hotel
    cake sandwich pizza croissant thought
bad         | mauvais                          | before | -        | attribute movie book restaurant hotel idea
young       | jeune                            | before | younger  | people adult royal
long        | long/longue                      | before | longer   | letter poem story movie lesson song river bridge
red         | rouge                            | after  | -        | colored flower rose apple tomato
white       | blanc/blanche                    | after  | -        | colored flower rose cat dog rabbit hen horse goat
    house
black       | noir                             | after  | -        | colored cat dog rabbit hen horse goat cow
blue        | bleu                             | after  | -        | colored flower bird
green       | vert                             | after  | -        | colored frog bird apple
yellow      | jaune                            | after  | -        | colored flower rose bird
gray        | gris                             | after  | -        | colored cat rabbit mouse horse
brown       | marron/marron/marron             | after  | -        | colored horse rabbit cow dog
expensive   | cher/chère                       | be     |          | clothing vehicle furniture device instrument ring
    hotel restaurant
heavy       | lourd                            | after  | heavier  | container -drawer furniture -bed
light       | léger/légère                     | after  | lighter  | container -drawer chair jacket bicycle
empty       | vide                             | after  | -        | container vessel bedroom plate restaurant passing
full        | plein                            | be     | -        | container vessel passing
clean       | propre                           | after  | cleaner  | clothing dish room -garden passing
dirty       | sale                             | after  | dirtier  | clothing dish room -garden vehicle -boat window
    passing
wet         | mouillé                          | after  | -        | clothing cat dog umbrella passing
dry         | sec/sèche                        | be     | -        | clothing umbrella passing
broken      | cassé                            | after  | -        | fragile -bottle chair device bicycle umbrella
    window guitar passing
open        | ouvert                           | be     | -        | opening container -basket shop museum passing
closed      | fermé                            | be     | -        | opening container -basket shop museum passing
hot         | chaud                            | after  | hotter   | served passing
cold        | froid                            | after  | colder   | served drunk passing
fresh       | frais/fraîche                    | after  | fresher  | fresh fruit vegetable egg
ripe        | mûr                              | after  | riper    | fruit tomato
round       | rond                             | after  | -        | table mirror box tower window plate basket
modern      | moderne                          | after  |          | house apartment museum hotel hospital school
    library kitchen chair table lamp bridge church
comfortable | confortable                      | after  |          | seat hotel house car shoe
interesting | intéressant                      | after  |          | movie story text thought museum lesson
boring      | ennuyeux                         | after  |          | movie story text -newspaper lesson
difficult   | difficile                        | after  |          | task
easy        | facile                           | after  | easier   | task
useful      | utile                            | after  |          | useful
funny       | drôle                            | after  | funnier  | told people
quiet       | tranquille                       | after  | quieter  | peaceful
dangerous   | dangereux                        | after  |          | wild river motorcycle
French      | français                         | after  | -        | nation wine cheese
English     | anglais                          | after  | -        | nation beer tea
Italian     | italien/italienne                | after  | -        | nation wine cheese restaurant
German      | allemand                         | after  | -        | nation beer wine
tall        | grand                            | be     | taller   | people tree
strong      | fort                             | be     | stronger | people coffee tea horse lion
tired       | fatigué                          | be     |          | people infant dog horse passing
happy       | heureux                          | be     | happier  | people infant passing
sad         | triste                           | after  | sadder   | people infant told poem passing
sick        | malade                           | be     | -        | people infant cat dog horse cow passing
intelligent | intelligent                      | after  |          | people person dog
kind        | gentil/gentille                  | after  | kinder   | people person
proud       | fier/fière                       | be     | prouder  | people
jealous     | jaloux/jalouse                   | be     |          | people
serious     | sérieux                          | after  |          | people person
shy         | timide                           | after  | shyer    | people person cat
lazy        | paresseux                        | after  | lazier   | people person cat
active      | actif                            | after  |          | people
athletic    | sportif                          | after  |          | people person
calm        | calme                            | after  | calmer   | people infant dog horse
rich        | riche                            | after  | richer   | people adult
generous    | généreux                         | after  |          | people person
polite      | poli                             | after  |          | people person
discreet    | discret/discrète                 | after  |          | people
honest      | honnête                          | after  |          | people person
curious     | curieux                          | after  |          | people person cat
ready       | prêt                             | be     | -        | people passing
worried     | inquiet/inquiète                 | be     |          | people passing
busy        | occupé                           | be     | busier   | people passing
"""

# English preposition | French
PREPOSITIONS = """
on          | sur
under       | sous
in          | dans
behind      | derrière
in front of | devant
next to     | à côté de
near        | près de
far from    | loin de
"""
