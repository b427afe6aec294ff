// SPDX-License-Identifier: Apache-2.0

#include "bridge/report_store.hpp"

#include "storage/durable.hpp"
#include "storage/file_system.hpp"

#include "core/log.hpp"

#include <algorithm>
#include <filesystem>
#include <tuple>

namespace weft::bridge {

std::string ReportStore::directory_of(Bedrock bedrock) const { return root_ + "/python/" + std::string(name(bedrock)); }

Result<std::string> ReportStore::store(Report report) {
  const std::string directory = directory_of(report.bedrock) + "/reports";
  report.received_at = now_in_utc();
  const std::string path = directory + "/" + report.file_name();
  const std::string text = json_of(report).dump(Json::Order::as_set);
  const std::lock_guard hold(mutex_);
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return fail(Errc::storage, directory + ": the directory cannot be made: " + error.message());
  WEFT_CHECK(storage::write_file_durably(storage::real_file_system(), path, as_bytes(text)));
  return path;
}

Result<std::vector<Report>> ReportStore::list(Bedrock bedrock) const {
  std::vector<Report> reports;
  const std::string directory = directory_of(bedrock) + "/reports";
  storage::FileSystem& files = storage::real_file_system();
  const std::lock_guard hold(mutex_);
  const auto names = files.list(directory);
  if (!names && names.error().code() == Errc::not_found) return reports;
  if (!names) return fail(names.error());
  for (const std::string& each : *names) {
    if (!each.ends_with(".json")) continue;
    const std::string path = directory + "/" + each;
    WEFT_TRY(const ByteBuffer bytes, files.read(path, 2 * kMostReportBytes));
    auto report = read_report(as_text(bytes), path);
    if (!report) {
      log_warn(path + ": no report, left out: " + report.error().text());
      continue;
    }
    reports.push_back(*std::move(report));
  }
  std::sort(reports.begin(), reports.end(), [](const Report& a, const Report& b) {
    return std::tie(a.model_id, a.planet, a.stage, a.format) < std::tie(b.model_id, b.planet, b.stage, b.format);
  });
  return reports;
}

std::optional<Report> ReportStore::native_of(Bedrock bedrock, const std::string& planet,
                                             const std::string& model) const {
  const auto all = list(bedrock);
  if (!all) return std::nullopt;
  for (const Report& each : *all)
    if (each.stage == "native" && each.planet == planet && each.model_id == model) return each;
  return std::nullopt;
}

}  // namespace weft::bridge
