"""Talk to chat models through one small protocol, `veridical.llm.protocol.ChatModel`: requests in, replies out.

The backends are an OpenAI-compatible server (`openai`), a local transformers model (`local`) and a scripted stand-in
for tests (`scripted`). `cache` stores their replies, `reply_parser` parses the replies, and `prompts` builds prompts
that quote texts. Which questions to ask is up to the detectors.
"""

from veridical.llm.protocol import ChatModel, Failure, Message, Reply, Request, TokenLogprob

__all__ = ["ChatModel", "Failure", "Message", "Reply", "Request", "TokenLogprob"]
