"""The way from the bodies of a batch to its replies.

Enters: bodies and headers. Leaves: a reply for each, whatever happens to the others. Not known here: hosts.

routing    bodies to requests, and the models that each is for
pipeline   instances to answers: tokenize, plan, run, answer
chain      requests that several models of a bundle answer one after the other
model      all of these, for a batch
reply      the response to one request
"""
