// SPDX-License-Identifier: Apache-2.0

#include "server/internal/text_answer.hpp"

#include <utility>

namespace weft::server::internal {
namespace {

constexpr std::size_t kPart = 32 << 10;  // of what is sent at once

}  // namespace

void TextAnswer::begin() {
  if (!streams_) return;
  HttpResponse head;
  head.content_type = "text/event-stream; charset=utf-8";
  head.headers.push_back({"X-Accel-Buffering", "no"});
  head.body = opening();
  stream_ = exchange_->stream(std::move(head));
}

void TextAnswer::take(std::size_t text, models::TextChunk part) {
  Choice& choice = choices_[text];
  choice.text += part.text;
  choice.ids.insert(choice.ids.end(), part.ids.begin(), part.ids.end());
  choice.scores.insert(choice.scores.end(), part.scores.begin(), part.scores.end());
  if (!part.features.empty()) choice.features = std::move(part.features);
  if (part.end != models::TextChunk::End::none) {
    choice.end = part.end;
    choice.stop = part.stop;
    choice.times = part.times;
    choice.state = part.state;
  }
  if (!stream_) return;
  kept_ += events(text, part);
  flush();
}

/// False: something is kept.
bool TextAnswer::flush() {
  if (!stream_ || !stream_->is_open()) kept_.clear();
  while (!kept_.empty()) {
    if (!stream_->send(kept_.substr(0, kPart))) return false;
    kept_.erase(0, kPart);
  }
  if (is_ending_ && stream_) stream_->end();
  return true;
}

bool TextAnswer::is_full() { return !flush(); }

void TextAnswer::wait() {
  if (stream_ && kept_.empty()) (void)stream_->send(": ping\n\n");
}

void TextAnswer::end() {
  if (!streams_) return exchange_->respond([self = shared_from_this()] { return self->whole(); });
  kept_ += closing();
  is_ending_ = true;
  flush();
}

void TextAnswer::fail(HttpResponse why) {
  if (!stream_) return exchange_->respond(std::move(why));
  kept_ += "data: " + why.body + "\n\n";
  is_ending_ = true;
  if (flush()) return;
  kept_.clear();  // its client reads too slowly for a last word
  flush();
}

}  // namespace weft::server::internal
