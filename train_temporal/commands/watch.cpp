#include "train_temporal/commands/watch.h"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>
#include <memory>
#include <new>

#include "common/cli/error.h"
#include "common/cli/interrupt.h"
#include "common/cli/log.h"
#include "common/files/csv.h"
#include "common/files/fingerprint.h"
#include "common/files/locks/file_lock.h"
#include "common/files/publish/atomic_file.h"
#include "common/files/publish/outputs.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "train_temporal/commands/predictor.h"
#include "train_temporal/run/apply/unlike_exams.h"

namespace coldframe::temporal {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kTableShare = 10;    // the table is written when a tenth is new
constexpr std::size_t kLongestName = 200;  // bytes; a file's name has room for 255

// The folder of results, and what is done in it.
class Results {
 public:
  Results(const fs::path& out, const std::string& bundle) : out_(out) {
    lock();
    require_own(bundle);
    create_folders_durably(out_ / "results");
    for (const auto& entry : fs::directory_iterator(out_ / "results")) {
      if (entry.path().extension() != ".json") continue;
      const Json result = read_json_file(entry.path());
      if (!result.contains("rows") || !result.contains("header") || !result.contains("input"))
        throw DataError(concat("'", entry.path().string(), "' is no whole result of --watch; ",
                               "remove it, and its arrival is predicted again"));
      results_[result["input"].get<std::string>()] = result;
    }
    write_table();
  }
  ~Results() {
    try {
      complete_table();
    } catch (const std::exception&) {  // the next start writes it anew
    }
  }
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;

  const Json* find(const std::string& input) const {  // null where it has no result
    const auto found = results_.find(input);
    return found == results_.end() ? nullptr : &found->second;
  }
  std::size_t size() const { return results_.size(); }
  bool failed() const {
    return std::ranges::any_of(results_,
                               [](const auto& item) { return !item.second["failures"].empty(); });
  }

  void add(const std::string& input, const Json& result) {
    const std::string name = input.size() > kLongestName ? sha256_hex(input) : input;
    // Names of exams may be in another encoding.
    const std::string text =
        result.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
    write_file_atomically(out_ / "results" / (name + ".json"), text);
    results_[input] = Json::parse(text);
    ++not_in_table_;
    // Each time for all results, it would take a time that grows with their square.
    if (kTableShare * not_in_table_ >= results_.size()) write_table();
  }

  void complete_table() {
    if (not_in_table_ > 0) write_table();
  }

 private:
  void lock() {
    LockOptions options;
    options.refuse = [this](const std::string& holder) {
      throw ConfigError(concat("--out '", out_.string(), "': ", holder,
                               " watches for it; stop that one, or choose another"));
    };
    lock_ = std::make_unique<FileLock>(out_ / ".lock", options);
  }

  // A new folder, or one of an earlier start.
  void require_own(const std::string& bundle) const {
    const fs::path file = out_ / "watch.json";
    const Json now = {{"bundle", bundle}};
    if (!fs::exists(file)) {
      require_empty({"--out", out_}, "results of --watch");
      return write_file_atomically(file, now.dump(2) + "\n", Existing::kKeep);
    }
    if (read_json_file(file) == now) return;
    throw ConfigError(
        concat("--out '", out_.string(), "' has results of another bundle; choose another one"));
  }

  void write_table() {
    std::string table;
    for (const auto& [input, result] : results_)
      for (const Json& row : result.at("rows")) {
        if (table.empty()) table = row_of("input", result.at("header"));
        table += row_of(input, row);
      }
    write_file_atomically(out_ / "predictions.csv", table);
    not_in_table_ = 0;
  }

  static std::string row_of(const std::string& input, const Json& fields) {
    auto row = fields.get<std::vector<std::string>>();
    row.insert(row.begin(), input);
    return csv_row(row);
  }

  fs::path out_;
  std::unique_ptr<FileLock> lock_;
  std::map<std::string, Json> results_;
  std::size_t not_in_table_ = 0;
};

bool is_being_written(const std::string& name) {
  return name.starts_with('.') || name.ends_with(".part") || name.ends_with(".partial") ||
         name.ends_with(".tmp");
}

// What is seen of an arrival: it changes when a file does.
struct Look {
  std::string stamp;  // SHA-256 of the files' names, sizes and times; "": there are none
  fs::file_time_type newest = fs::file_time_type::min();
  bool unfinished = false;
};

void look_at(const fs::path& path, const fs::path& folder, Look& look) {
  std::error_code error;
  const auto time = fs::last_write_time(path, error);
  if (error) return;
  look.newest = std::max(look.newest, time);
  look.unfinished |= is_being_written(path.filename().string());
  if (fs::is_regular_file(path, error))
    look.stamp += concat(path.lexically_relative(folder).string(), ' ', fs::file_size(path, error),
                         ' ', time.time_since_epoch().count(), '\n');
}

Look look_at(const fs::path& arrival) {
  Look look;
  std::error_code error;
  std::vector<fs::path> files = {arrival};
  // A receiver may take files away meanwhile.
  for (fs::recursive_directory_iterator at(arrival, error), end; !error && at != end;
       at.increment(error))
    files.push_back(at->path());
  std::ranges::sort(files);
  for (const fs::path& file : files) look_at(file, arrival.parent_path(), look);
  if (!look.stamp.empty()) look.stamp = sha256_hex(look.stamp);
  return look;
}

struct Arrival {
  fs::path path;
  std::string name;  // as utf8_name() has it
  std::string stamp;
};

class Arrivals {
 public:
  explicit Arrivals(const ApplyOptions& options) : options_(options) {}

  // Those that are complete and have no result, or one that may pass now, in order.
  std::vector<Arrival> complete(const Results& results) {
    std::vector<Arrival> found;
    std::map<std::string, Quiet> seen;
    waiting_ = 0;
    for (const auto& entry : fs::directory_iterator(options_.watch)) {
      const std::string name = utf8_name(entry.path().filename().string());
      if (is_being_written(name) || is_marker(name)) continue;
      const Json* const result = results.find(name);
      if (result && result->at("failures").empty()) continue;
      const Look look = look_at(entry.path());
      if (result && result->value("stamp", look.stamp) == look.stamp) continue;
      const auto before = seen_.find(name);
      const bool same = before != seen_.end() && before->second.stamp == look.stamp;
      const Quiet& since = seen[name] = same ? before->second : Quiet{look.stamp, Clock::now()};
      if (is_complete(entry.path(), look, same, since)) {
        found.push_back({entry.path(), name, look.stamp});
      } else {
        ++waiting_;
      }
    }
    seen_ = std::move(seen);
    std::ranges::sort(found, natural_less, &Arrival::name);
    return found;
  }
  std::size_t waiting() const { return waiting_; }  // not complete at the last look

 private:
  using Clock = std::chrono::steady_clock;
  struct Quiet {
    std::string stamp;
    Clock::time_point since;  // it is unchanged
  };

  bool is_marker(const std::string& name) const {
    return !options_.marker.empty() && name.ends_with("." + options_.marker);
  }

  bool is_complete(const fs::path& arrival, const Look& look, bool same, const Quiet& seen) const {
    if (look.stamp.empty()) return false;
    std::error_code error;  // a name that is too long has no marker
    if (!options_.marker.empty())
      return fs::exists(arrival / options_.marker, error) ||
             fs::exists(arrival.string() + "." + options_.marker, error);
    if (!same || look.unfinished) return false;
    std::chrono::duration<double> quiet = Clock::now() - seen.since;
    // A single look knows no more than what the files say.
    if (options_.once) quiet = fs::file_time_type::clock::now() - look.newest;
    return quiet.count() >= options_.quiet_s;
  }

  const ApplyOptions& options_;
  std::map<std::string, Quiet> seen_;  // at the last look
  std::size_t waiting_ = 0;
};

void predict(Predictor& applied, const fs::path& path, Json& result) {
  std::error_code error;
  const std::string suffix = lower(path.extension().string());
  if ((suffix == ".csv" || suffix == ".tsv") && !fs::is_directory(path, error))
    throw DataError("a table may name files of other places; watched folders take images alone");
  const SequenceReader cache(applied.features_of(path));
  Ensemble& ensemble = applied.ensemble();
  ensemble.require_same_features(cache, path);
  const auto exams = exams_with_frames(cache);
  for (const std::string& said : applied.warnings_of(cache, exams)) log_warning(said);
  const Dataset dataset = ensemble.load(cache, exams, applied.device_for(cache, exams));
  PredictionTable predictions = ensemble.predict(cache, dataset, exams);
  add_unlike(predictions, judge_exams(applied.folder(), dataset, exams, times_shown_to(ensemble)));
  const CsvTable table = parse_csv(to_csv(predictions), path.string());
  result["header"] = table.header;
  for (const auto& row : table.rows) result["rows"].push_back(row);
  result["failures"] = failures_json(cache);
}

// Null where the arrival has changed meanwhile, or has gone: that may pass. Errors of the machine
// end the watch.
Json result_of(const Arrival& arrival, Predictor& applied) {
  Json result = {{"input", arrival.name},
                 {"stamp", arrival.stamp},
                 {"header", Json::array()},
                 {"rows", Json::array()}};
  std::string why;
  try {
    predict(applied, arrival.path, result);
  } catch (const Interrupted&) {
    throw;
  } catch (const SystemError&) {
    throw;
  } catch (const CacheError&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {  // whatever is odd about it, others follow
    why = error.what();                    // LibTorch's goes on with where it was thrown
    why.resize(std::min(why.size(), why.find('\n')));
    result["failures"] = {{{"exam", ""}, {"source", ""}, {"reason", why}}};
  }
  if (look_at(arrival.path).stamp != arrival.stamp) {
    log_info(concat("'", arrival.name, "' has changed while it was read, and is looked at again"));
    return nullptr;
  }
  if (!why.empty()) log_warning(concat("'", arrival.name, "' cannot be read: ", why));
  return result;
}

void pause() {
  ::sleep(1);  // a signal ends it
}

// False where none has got a result.
bool predict_all(const std::vector<Arrival>& arrivals, Predictor& applied, Results& results) {
  bool progress = false;
  for (const Arrival& arrival : arrivals) {
    if (stop_requested()) break;
    const Json result = result_of(arrival, applied);
    if (result.is_null()) continue;  // and is looked at again
    results.add(arrival.name, result);
    progress = true;
    log_info(concat("'", arrival.name, "' is predicted"));
  }
  results.complete_table();
  return progress;
}

// Results that lie among arrivals would be predicted in turn, and arrivals among results be lost.
void require_apart(const fs::path& watch, const fs::path& out) {
  const fs::path from = fs::weakly_canonical(fs::absolute(watch)) / "",
                 to = fs::weakly_canonical(fs::absolute(out)) / "";
  if (!to.string().starts_with(from.string()) && !from.string().starts_with(to.string())) return;
  throw ConfigError(concat("--out '", out.string(), "' and --watch '", watch.string(),
                           "' lie in each other; choose an --out elsewhere"));
}

}  // namespace

int watch_folder(const ApplyOptions& options) {
  if (!fs::is_directory(options.watch))
    throw ConfigError(concat("--watch '", options.watch.string(), "': there is no such folder"));
  require_apart(options.watch, options.out);
  Predictor applied(options);
  if (applied.ensemble().card().arrangement.asked())
    throw ConfigError(
        "the run joins files of several streams or visits (--streams, --visits), and --watch "
        "predicts every arrival by itself; give all exams with --input");
  const CovariateEncoding& taken = applied.ensemble().card().covariates;
  if (!taken.empty() && options.data.labels.empty())
    throw ConfigError(concat("the models take the covariates ", join(taken.names(), ", "),
                             ", which no image brings; give a CSV with columns exam and these by "
                             "--labels, which is read anew for every arrival"));
  Results results(options.out, applied.bundle().digest());
  Arrivals arrivals(options);
  if (options.once) arrivals.complete(results);  // the first of the two looks
  log_info(concat("watching '", options.watch.string(), "': ", plural(results.size(), "arrival"),
                  " predicted before"));
  std::size_t waiting = 0;
  while (!stop_requested()) {
    const auto found = arrivals.complete(results);
    waiting = arrivals.waiting() + found.size();
    const bool progress = predict_all(found, applied, results);
    if (options.once && !progress) break;
    if (!progress) pause();
  }
  if (stop_requested()) throw Interrupted("stopped; the same command goes on");
  if (waiting > 0) log_info(concat(plural(waiting, "arrival"), " not complete, and not predicted"));
  std::cout << concat(plural(results.size(), "arrival"),
                      " predicted: ", (options.out / "predictions.csv").string(), "\n");
  return static_cast<int>(results.failed() ? ExitCode::kDoneWithFindings : ExitCode::kDone);
}

}  // namespace coldframe::temporal
