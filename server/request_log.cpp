// SPDX-License-Identifier: Apache-2.0

#include "server/request_log.hpp"

#include "core/log.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace weft::server {

using models::TextChunk;
using models::TextRecord;

/// Hands all on, and notes what each text becomes.
class RecordedAnswer final : public TextReceiver {
 public:
  RecordedAnswer(std::shared_ptr<RequestLog> log, std::shared_ptr<TextReceiver> to, std::vector<TextRecord> records)
      : log_(std::move(log)), to_(std::move(to)), records_(std::move(records)) {}

  void begin() override { to_->begin(); }
  void take(std::size_t text, TextChunk part) override {
    TextRecord& record = records_[text];
    record.ids.insert(record.ids.end(), part.ids.begin(), part.ids.end());
    const bool is_whole =
        part.end == TextChunk::End::end || part.end == TextChunk::End::stop || part.end == TextChunk::End::length;
    if (is_whole && record.request.most_tokens > 0) {
      record.end = part.end;
      record.state = part.state;
      log_->write(std::move(record));
    }
    to_->take(text, std::move(part));
  }
  bool is_full() override { return to_->is_full(); }
  void wait() override { to_->wait(); }
  void end() override { to_->end(); }
  void fail(HttpResponse why) override { to_->fail(std::move(why)); }

 private:
  const std::shared_ptr<RequestLog> log_;
  const std::shared_ptr<TextReceiver> to_;
  std::vector<TextRecord> records_;
};

Result<std::shared_ptr<RequestLog>> RequestLog::open(std::string path, std::string version) {
  std::shared_ptr<RequestLog> made(new RequestLog(std::move(path), std::move(version)));
  WEFT_CHECK(made->open_file());
  return made;
}

Status RequestLog::open_file() {
  // Made here where it is new, for its owner alone; one that is there keeps what its owner allowed.
  const int made = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (made >= 0) ::close(made);
  WEFT_TRY(file_, storage::real_file_system().open(path_, storage::OpenMode::append));
  return {};
}

void RequestLog::reopen() {
  const std::lock_guard hold(mutex_);
  if (const Status opened = open_file(); !opened) log_error("request log: " + opened.error().text());
}

std::shared_ptr<TextReceiver> RequestLog::record(std::shared_ptr<TextReceiver> receiver,
                                                 std::vector<models::TextRequest>& texts,
                                                 const ModelDescription& model) {
  std::vector<TextRecord> records;
  for (models::TextRequest& each : texts) {
    each.wants_state = true;
    TextRecord& record = records.emplace_back();
    record.model = model.name;
    record.version = version_;
    record.digest = model.digest;
    record.context = model.context;
    record.request = each;
  }
  return std::make_shared<RecordedAnswer>(shared_from_this(), std::move(receiver), std::move(records));
}

void RequestLog::write(TextRecord record) {
  record.time =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  const std::string line = models::to_line(record);
  const std::lock_guard hold(mutex_);
  const Status written = file_ ? file_->write(std::as_bytes(std::span(line))) : fail(Errc::storage, path_ + ": closed");
  auto& counter = written ? lines_ : failures_;
  // One line a failure would fill the log as fast as requests come.
  if (counter.fetch_add(1, std::memory_order_relaxed) == 0 && !written)
    log_error("request log: " + written.error().text() + "; texts are answered all the same");
}

}  // namespace weft::server
