"""One job: its reports condensed, its pace, what it promised, whether it is believed, and when it will be done."""
