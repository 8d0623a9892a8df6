"""Chat models behind one small protocol (`veridical.llm.protocol.ChatModel`): messages in, replies out.

Backends: an OpenAI-compatible server (`openai`), a local transformers model (`local`), a scripted stand-in
(`scripted`). `cache` keeps the replies of any of them, `reply_parser` reads replies without trusting them, `prompts`
fences quoted texts. Nothing here knows what is asked.
"""

from veridical.llm.protocol import ChatModel, Failure, Message, Reply, Request, TokenLogprob

__all__ = ["ChatModel", "Failure", "Message", "Reply", "Request", "TokenLogprob"]
