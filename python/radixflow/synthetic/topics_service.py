"""What tickets to the teams of a shop are about: names, descriptions and phrases of each topic.

``(a|b)`` in a phrase stands for one of the two. Held-out phrases are other sentences made of the same words: a model
trained from nothing can't know a word that it never saw.
"""

from __future__ import annotations

from radixflow.synthetic.topic import Topic

SERVICE = (
    Topic(
        names=("billing", "payments", "invoices", "finance"),
        described=(
            "invoices and payments",
            "questions about bills and charges",
            "a wrong charge or invoice",
            "prices on the bill and the credit card",
        ),
        held_described=("charges, bills and invoices", "a payment or a bill that is wrong"),
        phrases=(
            "I was charged (twice|three times) for (one order|the same month|my plan)",
            "the (invoice|bill) for (March|May|last month|this year) is (wrong|too high|not correct)",
            "my credit card was charged (two times|again|too much)",
            "please send the invoice to our (accounting|finance) department",
            "I do not understand the (charge|fee|tax) on my (bill|invoice|statement)",
            "the amount on the (invoice|bill) does not match (our contract|the price|my order)",
            "we were billed for (ten|five) users but we have (four|two)",
            "can you (correct|change|check) the (tax|vat) number on our (invoice|bill)",
            "there is a (charge|payment) on my (card|bank account) that is too high",
            "I need a (copy|list) of all invoices and payments of (last year|this year)",
            "how do I change the credit card that pays the (bill|invoice)",
            "(a wrong|an unknown) fee is on this month's bill",
        ),
        held_out=(
            "my card was billed (twice|again) for the (plan|order)",
            "the tax on our (bill|invoice) is (too high|wrong)",
            "(this|last) month's invoice has a (charge|fee) that I do not understand",
            "our finance department needs a copy of the (bill|invoice)",
        ),
    ),
    Topic(
        names=("refund", "refunds", "moneyback"),
        described=(
            "the writer wants money back",
            "asks to be paid back",
            "money back for an order",
            "a customer who wants a refund",
        ),
        held_described=("wants to get the money back", "asks for a refund"),
        phrases=(
            "I want my money back for (this order|the shoes|the ticket)",
            "please refund (my order|the full amount|my last payment)",
            "when will I get my refund",
            "I sent the (item|product|shoes) back and the refund (never came|is missing|has not arrived)",
            "how do I (ask for|get|request) a refund",
            "I would like to be paid back for the (broken item|wrong size|ticket)",
            "you promised a refund (two weeks|a month) ago",
            "return the money to my (card|bank account)",
            "the refund for my (return|order) is (still open|late|too small)",
            "I (request|demand) a full refund",
            "give me back the money that I paid for the (product|item)",
        ),
        held_out=(
            "I (ask for|want) a full refund for the (item|ticket)",
            "please return the full amount that I paid",
            "I have not got the refund for the shoes",
            "when do I get the money back for my return",
        ),
    ),
    Topic(
        names=("shipping", "delivery", "logistics", "parcels"),
        described=(
            "parcels and deliveries",
            "where an order is",
            "late or lost packages",
            "delivery of an order to an address",
        ),
        held_described=("a parcel that is late or lost", "where a package is"),
        phrases=(
            "my (parcel|package|delivery) has not arrived",
            "the (parcel|package|shipment) is (late|lost|still missing)",
            "where is my (parcel|package|order|shipment)",
            "the tracking (number|page) shows no (change|news) for (a week|five days)",
            "the (driver|courier) left the (parcel|package) at the wrong (address|door|house)",
            "can you deliver the (order|parcel) to another address",
            "the courier never came to our (address|office|house)",
            "how long does (delivery|shipping) to (Spain|Norway|Canada) take",
            "the box arrived (open|wet|empty)",
            "I need to change the delivery address of my (order|shipment)",
            "our (shipment|order) is stuck at (customs|the border|the depot)",
        ),
        held_out=(
            "the courier lost my (parcel|package)",
            "our package is stuck at the depot",
            "the tracking page of my parcel shows the wrong address",
            "my shipment never arrived at the office",
        ),
    ),
    Topic(
        names=("outage", "incident", "downtime", "operations"),
        described=(
            "something is down",
            "a service that does not work for anybody",
            "the system is not available",
            "everything fails for all users",
        ),
        held_described=("a service is down", "the system fails for everybody"),
        phrases=(
            "(since this morning|for an hour|since last night) (the whole site|your service|the system) is down",
            "every (payment|request|call|upload|order) fails (|since this morning|since noon|for an hour)",
            "(since this morning|since noon|since last night) every (payment|order|request|call) fails",
            "nobody (here|in our company|in the office) can (use|open|reach) (the service|your site|the system)",
            "all (our servers|your servers|pages|payments|orders) are (down|failing|not available)",
            "(the site|your service) is (not available|offline|not reachable) for (everybody|all users|all of us)",
            "no (order|payment|request|message) goes through",
            "we see (a timeout|an error 500|a 503) on (every page|all pages|every request)",
            "the (whole|complete) system went (down|offline) (at noon|this morning|last night)",
            "your servers do not (answer|respond) (at all|since noon|any more)",
            "nothing works (|since this morning|since last night), (all requests fail|the site is dead)",
        ),
        held_out=(
            "all (payments|requests|orders) fail since (this morning|last night)",
            "the service went offline for all of us (at noon|this morning)",
            "since noon nobody can reach your servers",
            "every page of the site is down for an hour",
        ),
    ),
    Topic(
        names=("hardware", "devices", "repair", "equipment"),
        described=(
            "broken devices",
            "laptops, printers and phones",
            "a machine that needs a repair",
            "screens, keyboards and cables",
        ),
        held_described=("a broken laptop, screen or printer", "devices that need a repair"),
        phrases=(
            "the (printer|scanner) (is broken|does not print|makes a loud noise|has a paper jam)",
            "my (laptop|computer|phone) (does not start|is broken|gets very hot|makes a loud noise)",
            "the (screen|keyboard|mouse) of my laptop is (broken|black|dead)",
            "I need a new (cable|battery|keyboard|mouse|monitor)",
            "the battery (does not charge|is dead after an hour|gets very hot)",
            "the (monitor|screen) stays black",
            "please repair the (printer|monitor|camera) in (room five|the office)",
            "I dropped my (phone|laptop) and the screen is broken",
            "the (camera|microphone|fan) of my computer is (dead|broken|very loud)",
            "the paper jam in the printer is back",
        ),
        held_out=(
            "the (keyboard|camera) of my phone is dead",
            "my phone gets hot and the battery is dead",
            "the printer in the office makes a loud noise",
            "I need a repair of my laptop screen",
        ),
    ),
)
"""Topics with goods and services."""
