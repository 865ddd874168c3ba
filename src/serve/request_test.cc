// Parts of requests: parameters, forms, and who may ask.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "banyan/error.h"
#include "base/hash.h"
#include "serve/access.h"
#include "serve/batches/file_store.h"
#include "serve/batches/multipart.h"
#include "serve/request/api_error.h"
#include "serve/request/parameters.h"
#include "support/temp_directory.h"

namespace banyan {
namespace {

using testing_support::TempDirectory;

TEST(Parameters, EachIsReadOrRefusedByName) {
  const Json body = ReadBody(R"({"a":1,"b":0.50,"c":null,"d":["x"],"e":true})");
  Parameters parameters(body);
  EXPECT_EQ(parameters.Integer("a", 0, 0, 5), 1);
  EXPECT_EQ(parameters.Number("b", 0.0, 0.0, 1.0), 0.5);  // kept as it is written, still a number
  EXPECT_EQ(parameters.Text("c", "none"), "none");
  EXPECT_EQ(parameters.Texts("d", 1), std::vector<std::string>{"x"});
  const auto refused = [](const auto& call) {
    try {
      call();
    } catch (const ApiError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refused([&] { parameters.RefuseOthers(); }), "'e': this server has no such parameter");
  EXPECT_TRUE(parameters.Flag("e", false));
  parameters.RefuseOthers();
  EXPECT_EQ(refused([&] { parameters.Integer("a", 0, 2, 5); }),
            "'a': expected a whole number from 2 to 5, found 1");
  EXPECT_EQ(refused([&] { parameters.Integer("b", 0, 0, 5); }),
            "'b': expected a whole number from 0 to 5, found 0.50");
  EXPECT_EQ(refused([&] { parameters.Needed("z"); }), "'z' is missing");
  EXPECT_NE(refused([] { ReadBody("[1]"); }), "");
  EXPECT_NE(refused([] { ReadBody(std::string(100000, '[')); }), "");
}

TEST(Parameters, PropertiesKeepTheirOrder) {
  EXPECT_EQ(OrderedText(R"({"x":{"z":1,"a":2}})", {"x"}), R"({"z":1,"a":2})");
  EXPECT_EQ(OrderedText(R"({"x":{"z":1}})", {"x", "y"}), "");
}

TEST(Multipart, PartsAndWhatIsNone) {
  const std::string type = "multipart/form-data; boundary=b";
  const std::string body =
      "--b\r\nContent-Disposition: form-data; name=\"file\"; "
      "filename=\"a;\\\"b.txt\"\r\n\r\none\r\n"
      "two\r\n--b\r\ncontent-disposition: form-data; name=purpose\r\n\r\n\r\n--b--\r\n";
  const std::vector<FormPart> parts = ReadForm(type, body);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].filename, "a;\"b.txt");
  EXPECT_EQ(parts[0].bytes, "one\r\ntwo");
  EXPECT_EQ(parts[1].name, "purpose");
  EXPECT_EQ(parts[1].bytes, "");
  for (size_t size = 0; size + 5 < body.size(); ++size) {
    EXPECT_THROW(ReadForm(type, std::string_view(body).substr(0, size)), ApiError) << size;
  }
  EXPECT_THROW(ReadForm("text/plain", body), ApiError);
  EXPECT_THROW(ReadForm("multipart/form-data", body), ApiError);
}

TEST(Access, KeysOriginsAndHosts) {
  const TempDirectory folder;
  const std::string file = (folder.path() / "keys").string();
  std::ofstream(file) << "# people\nanna: anna-key-0123456789\n\nno-name-key-0123456789\n";
  ServeOptions options;
  options.keys_file = file;
  options.isolate = true;
  options.allow_origins = {"https://good.example"};
  const Access access(options);
  const auto status = [&](const HttpFields& headers, std::string* tenant = nullptr) {
    HttpRequest request;
    request.headers = headers;
    const bool has_host =
        std::ranges::count(headers, std::string_view("host"), &HttpFields::value_type::first) > 0;
    if (!has_host) request.headers.emplace_back("host", "localhost:8080");
    const auto error = access.Check(request, false);
    if (tenant) *tenant = request.tenant;
    EXPECT_EQ(error.has_value(), request.scope == 0);
    return error ? error->status() : 200;
  };
  std::string tenant;
  EXPECT_EQ(status({{"authorization", "Bearer anna-key-0123456789"}}, &tenant), 200);
  EXPECT_EQ(tenant, "anna");
  EXPECT_EQ(status({{"authorization", "bearer no-name-key-0123456789"}}, &tenant), 200);
  EXPECT_TRUE(tenant.starts_with("key:"));
  EXPECT_EQ(status({}), 401);
  EXPECT_EQ(status({{"authorization", "Bearer anna-key-012345678"}}), 401);
  EXPECT_EQ(status({{"host", "evil.example"}}), 403);
  EXPECT_EQ(status({{"host", "localhost:80"}, {"origin", "http://evil.example"}}), 403);
  const std::pair<std::string, std::string> key = {"authorization", "Bearer anna-key-0123456789"};
  EXPECT_EQ(status({{"host", "[::1]:80"}, {"origin", "http://[::1]:80"}, key}), 200);
  EXPECT_EQ(status({{"host", "127.0.0.1"}, {"origin", "https://good.example"}, key}), 200);
  EXPECT_FALSE(access.MaySeeAll("anna"));  // with isolate, and without an administrator
  options.admin = "anna";
  EXPECT_TRUE(Access(options).MaySeeAll("anna"));
  EXPECT_FALSE(Access(options).MaySeeAll("ben"));
  options.admin = "nobody";
  EXPECT_THROW(Access{options}, Error);
  options.admin.clear();
  std::ofstream(file) << "short\n";
  EXPECT_THROW(Access{options}, Error);
  options.keys_file.clear();
  EXPECT_THROW(Access{options}, Error);
}

// A browser asks under the name of the page's own server, which may lead to this machine.
TEST(Access, HostsAreLiteralsNotBeginnings) {
  const Access access{ServeOptions()};
  const auto status = [&](const std::vector<std::string>& hosts) {
    HttpRequest request;
    for (const std::string& host : hosts) request.headers.emplace_back("host", host);
    const auto error = access.Check(request, false);
    return error ? error->status() : 200;
  };
  for (const char* ours : {"127.0.0.1", "127.0.0.1:8080", "127.255.0.9", "localhost", "LOCALHOST:1",
                           "[::1]", "[::1]:8080"}) {
    EXPECT_EQ(status({ours}), 200) << ours;
  }
  for (const char* theirs :
       {"127.0.0.1.evil.test", "127.0.0.1.evil.test:8080", "127.evil.test", "127.1",
        "localhost.evil.test", "[::1].evil.test", "[::2]", "evil.test", "127.0.0.1:80.evil.test",
        "0.0.0.0", "127.0.0.1 ", "[127.0.0.1"}) {
    EXPECT_EQ(status({theirs}), 403) << theirs;
  }
  EXPECT_EQ(status({}), 400);
  EXPECT_EQ(status({""}), 400);
  EXPECT_EQ(status({"localhost", "localhost"}), 400);
}

// What a key owns stays its own when other lines of the file come and go.
TEST(Access, TenantsDoNotDependOnOtherLines) {
  const TempDirectory folder;
  const std::string file = (folder.path() / "keys").string();
  ServeOptions options;
  options.keys_file = file;
  options.isolate = true;
  const auto tenant_of = [&](const std::string& key) {
    HttpRequest request;
    request.headers = {{"host", "localhost"}, {"authorization", "Bearer " + key}};
    EXPECT_FALSE(Access(options).Check(request, false));
    return std::pair(request.tenant, request.scope);
  };
  std::ofstream(file) << "first-key-0123456789\nsecond-key-0123456789\nanna:third-key-0123456789\n";
  const auto first = tenant_of("first-key-0123456789"), second = tenant_of("second-key-0123456789");
  EXPECT_NE(first, second);
  EXPECT_EQ(first.first.find("first"), std::string::npos);  // nothing of the key itself
  std::ofstream(file) << "second-key-0123456789\nanna:fourth-key-0123456789\n";
  EXPECT_EQ(tenant_of("second-key-0123456789"), second);
  EXPECT_EQ(tenant_of("fourth-key-0123456789").first, "anna");  // a name may get another key
}

TEST(Embeddings, Base64) {
  EXPECT_EQ(Base64(""), "");
  EXPECT_EQ(Base64("f"), "Zg==");
  EXPECT_EQ(Base64("fo"), "Zm8=");
  EXPECT_EQ(Base64("foobar"), "Zm9vYmFy");
}

constexpr std::int64_t kPlenty = 1 << 30;

TEST(FileStore, TenantsSeeTheirOwn) {
  const TempDirectory folder;
  std::string id;
  {
    FileStore store(folder.path(), kPlenty);
    id = store.Keep({"anna", "a.jsonl", "batch"}, "one");
    EXPECT_EQ(ReadWholeFile(store.PathOf("anna", id)), "one");
    EXPECT_THROW(store.PathOf("ben", id), ApiError);
    EXPECT_THROW(store.PathOf("anna", "../" + id), ApiError);
    EXPECT_EQ(std::filesystem::status(store.PathOf("anna", id)).permissions(),
              std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    EXPECT_THROW(FileStore(folder.path(), kPlenty), Error);  // two servers would do the work twice
  }
  std::ofstream(folder.path() / "files" / "file-cut") << "an upload without an end";
  FileStore store(folder.path(), kPlenty);
  EXPECT_NE(store.Describe("anna", id).find("a.jsonl"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "files" / "file-cut"));
  EXPECT_GT(store.used("anna"), 0);
  store.Delete("anna", id);
  EXPECT_THROW(store.Describe("anna", id), ApiError);
  EXPECT_EQ(store.used("anna"), 0);
}

// Uploads that come at the same time do not pass the limit together.
TEST(FileStore, NumberOfFilesIsLimitedExactly) {
  const TempDirectory folder;
  FileStore store(folder.path(), kPlenty, /*most_files=*/7);
  std::atomic<int> kept = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 4; ++i) {
          try {
            store.Keep({"anna", "a", "batch"}, "x");
            ++kept;
          } catch (const ApiError& error) {
            EXPECT_EQ(error.status(), 413);
          }
        }
      });
    }
  }
  EXPECT_EQ(kept, 7);
}

// One tenant's files take no room of another's, and what comes and goes disturbs nobody.
TEST(FileStore, EachTenantHasRoomOfItsOwn) {
  const TempDirectory folder;
  FileStore store(folder.path(), 100'000);
  const std::string bytes(10'000, 'x');  // with what an entry costs beside them, 18192
  std::vector<std::thread> threads;
  std::atomic<int> kept = 0, refused = 0, wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        try {
          if (t == 0) {
            store.Delete("ben", store.Keep({"ben", "b", "batch"}, bytes));
          } else {
            store.Keep({"anna", "a", "batch"}, bytes);
            ++kept;
          }
        } catch (const ApiError& error) {
          ++(error.status() == 413 && t != 0 ? refused : wrong);
        } catch (const std::exception&) {
          ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(kept, 5);  // never more than there is room for, whoever comes first
  EXPECT_EQ(refused, 25);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(store.used("ben"), 0);
  // Results of work that was done are kept all the same, and count.
  const std::filesystem::path result = folder.path() / "result";
  std::ofstream(result) << std::string(50'000, 'y');
  const std::string id = store.Adopt({"anna", "out", "batch_output"}, result);
  EXPECT_EQ(ReadWholeFile(store.PathOf("anna", id)).size(), 50'000u);
  EXPECT_GT(store.used("anna"), 100'000);
  EXPECT_THROW(store.Keep({"anna", "a", "batch"}, "x"), ApiError);
}

}  // namespace
}  // namespace banyan
