"""Ordinary words, for a tokenizer that knows more than tickets."""

_LISTED = """
apple bridge river mountain window garden kitchen castle forest island engine rocket planet ocean desert village
market museum library station airport harbor hospital church tower street corner basement balcony roof floor
wall ceiling carpet curtain mirror lamp candle chair sofa pillow blanket bottle glass plate spoon fork knife
pot oven fridge bread butter cheese honey sugar salt pepper onion garlic carrot potato tomato pumpkin lemon
orange banana cherry grape peach melon coffee tea milk juice wine water rice noodle soup salad cake cookie
horse sheep goat rabbit tiger lion bear wolf fox monkey elephant camel dolphin whale shark turtle snake frog
eagle pigeon chicken spider butterfly bee ant flower rose tulip tree leaf root seed grass stone sand metal
gold silver copper iron paper pencil brush paint canvas guitar piano violin drum trumpet song dance theater
movie actor author poet painter singer teacher student doctor nurse farmer baker butcher tailor sailor pilot
soldier king queen prince wizard dragon pirate ghost robot clock calendar compass lantern ladder hammer nail
saw drill rope chain wheel bicycle train bus truck boat ship sail anchor bridle saddle tent backpack jacket
sweater shirt trousers skirt dress boots gloves scarf hat button pocket zipper cotton wool silk leather
winter spring summer autumn snow rain storm thunder cloud wind sun moon star rainbow fire smoke ash ice
football tennis chess puzzle marathon swimming climbing skiing sailing fishing hunting camping travel holiday
money budget salary tax loan bank insurance market stock trade factory office meeting project deadline report
contract law court police army school university lesson exam science physics chemistry biology history
geography language grammar poem novel newspaper radio camera photo video game toy doll balloon gift party
wedding birthday family mother father brother sister uncle aunt cousin neighbor friend baby child health
medicine vaccine fever cough tooth heart brain bone skin hair energy battery solar oil gas coal nuclear
climate pollution recycling vegan recipe restaurant hotel tourist passport visa border embassy
"""
WORDS = tuple(dict.fromkeys(_LISTED.split()))
