"""Prints `ag-ui.jsonl`: a run of LangGraph through ag-ui-langgraph under a scripted model, without RAW events.

pip install ag-ui-langgraph==0.0.47 fastapi && python record_ag_ui.py > ag-ui.jsonl
"""

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import Any

from ag_ui.core import RunAgentInput, UserMessage
from ag_ui.encoder import EventEncoder
from ag_ui_langgraph import LangGraphAgent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.checkpoint.memory import MemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode


@tool
def weather(city: str) -> str:
    """Return the weather of a city."""
    return f"{city}: sun"


class Scripted(BaseChatModel):
    """Says something and calls a tool twice, then answers."""

    turn: int = 0

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, messages: Any, **_: Any) -> ChatResult:
        raise NotImplementedError

    def _stream(self, messages: Any, stop: Any = None, run_manager: Any = None, **_: Any) -> Iterator[Any]:
        self.turn += 1
        for part in list(calls()) if self.turn == 1 else list(answer()):
            chunk = ChatGenerationChunk(message=part)
            if run_manager:
                run_manager.on_llm_new_token(str(part.content), chunk=chunk)
            yield chunk


def calls() -> Iterator[AIMessageChunk]:
    yield AIMessageChunk(content="Looking.", id="m1")
    for place, city in enumerate(("Oslo", "Rome")):
        named = {"name": "weather", "args": "", "id": f"call_{place + 1}", "index": place}
        yield AIMessageChunk(content="", id="m1", tool_call_chunks=[named])
        for text in ('{"city": ', f'"{city}"}}'):
            more = {"name": None, "args": text, "id": None, "index": place}
            yield AIMessageChunk(content="", id="m1", tool_call_chunks=[more])
    yield AIMessageChunk(content="", id="m1", response_metadata={"finish_reason": "tool_calls"})


def answer() -> Iterator[AIMessageChunk]:
    for text in ("Sun ", "in ", "both."):
        yield AIMessageChunk(content=text, id="m2")
    yield AIMessageChunk(content="", id="m2", response_metadata={"finish_reason": "stop"})


async def main() -> None:
    model, graph = Scripted(), StateGraph(MessagesState)

    async def ask(state: MessagesState, config: RunnableConfig) -> Any:
        return {"messages": [await model.ainvoke(state["messages"], config)]}

    graph.add_node("ask", ask)
    graph.add_node("tools", ToolNode([weather]))
    graph.add_edge(START, "ask")
    graph.add_conditional_edges("ask", lambda state: "tools" if state["messages"][-1].tool_calls else END)
    graph.add_edge("tools", "ask")
    agent = LangGraphAgent(name="weather", graph=graph.compile(checkpointer=MemorySaver()))
    question = [UserMessage(id="u1", role="user", content="Weather in Oslo and Rome?")]
    given = RunAgentInput(
        thread_id="t1", run_id="r1", state={}, messages=question, tools=[], context=[], forwarded_props={}
    )
    async for event in agent.run(given):
        line = event if isinstance(event, str) else EventEncoder().encode(event)
        body = json.loads(line.removeprefix("data: "))
        if body["type"] != "RAW":  # the events of LangGraph, which langgraph.jsonl has
            body.pop("rawEvent", None)
            print(json.dumps(body))


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(main())
