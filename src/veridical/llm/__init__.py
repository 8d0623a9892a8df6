"""Chat models behind one small protocol (`veridical.llm.protocol.ChatModel`): messages in, replies out.

Backends: an OpenAI-compatible server (`openai`), a local transformers model (`local`), a scripted double (`scripted`);
`cache` keeps the replies of any of them; `parse` reads replies without trusting them, `prompts` fences what is quoted.
Nothing here knows what is asked.
"""

from veridical.llm.protocol import ChatModel, Failure, Message, Reply, Request, TokenLogprob

__all__ = ["ChatModel", "Failure", "Message", "Reply", "Request", "TokenLogprob"]
