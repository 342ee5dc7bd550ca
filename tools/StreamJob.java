import java.io.Serializable;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.co.CoProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.TumblingProcessingTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.WindowAssigner;
import org.apache.flink.util.Collector;

/**
 * Submits one job of the DataStream API to the cluster at a port of this machine: StreamJob PORT JAR NAME KEY=VALUE ...
 *
 * <p>shape is window, unmarked (a window by event time without watermarks), processing, join or none; subtasks the parallelism; idle and drift, in ms, an idle timeout of all
 * sources and the drift that an alignment of them allows; fail the number of records after which a map throws. Each
 * other KEY is the name of a source: its partitions, separated by commas, each as age/speed/silent: how old its rows
 * are in ms, how fast its event time goes in thousandths of the clock, and after how many ms it falls silent (-1 never).
 * A source of one partition "stock/age" is Flink's own DataGeneratorSource. "KEY+" gives the source the name of the one
 * before.
 */
public class StreamJob {
    public static void main(String[] arguments) throws Exception {
        StreamExecutionEnvironment job = StreamExecutionEnvironment.createRemoteEnvironment(
                "127.0.0.1", Integer.parseInt(arguments[0]), arguments[1]);
        String shape = "window";
        long idle = 0, drift = 0, fail = 0;
        String name = "";
        List<DataStream<Long>> streams = new ArrayList<>();
        job.setParallelism(2);
        for (String argument : Arrays.asList(arguments).subList(3, arguments.length)) {
            String[] pair = argument.split("=", 2);
            switch (pair[0]) {
                case "shape" -> shape = pair[1];
                case "subtasks" -> job.setParallelism(Integer.parseInt(pair[1]));
                case "idle" -> idle = Long.parseLong(pair[1]);
                case "drift" -> drift = Long.parseLong(pair[1]);
                case "fail" -> fail = Long.parseLong(pair[1]);
                case "setting" -> job.configure(Configuration.fromMap(
                        Map.of(pair[1].split(":", 2)[0], pair[1].split(":", 2)[1])));
                default -> {
                    name = pair[0].endsWith("+") ? name : pair[0];
                    streams.add(stream(job, name, pair[1], shape, idle, drift));
                }
            }
        }
        DataStream<Long> all = streams.get(0);
        if (fail > 0) {
            long most = fail;
            all = all.map(new FailingMap(most)).returns(Types.LONG).name("risky");
        }
        DataStream<Long> result;
        if (shape.equals("join")) {
            result = all.connect(streams.get(1)).keyBy(row -> row % 10, row -> row % 10).process(new Join()).name("join");
        } else if (shape.equals("none")) {
            result = all.map(row -> row).returns(Types.LONG).name("clean");
        } else {
            for (DataStream<Long> other : streams.subList(1, streams.size())) {
                all = all.union(other);
            }
            WindowAssigner<Object, org.apache.flink.streaming.api.windowing.windows.TimeWindow> windows =
                    shape.equals("processing")
                            ? TumblingProcessingTimeWindows.of(Duration.ofSeconds(5))
                            : TumblingEventTimeWindows.of(Duration.ofSeconds(5));
            result = all.keyBy(row -> row % 10).window(windows).reduce((a, b) -> b).name("window");
        }
        result.sinkTo(new DiscardingSink<>()).name("sink");
        System.out.println("Job ID " + job.executeAsync(arguments[2]).getJobID());
        System.exit(0);
    }

    static DataStream<Long> stream(
            StreamExecutionEnvironment job, String name, String partitions, String shape, long idle, long drift) {
        WatermarkStrategy<Long> strategy =
                shape.equals("processing") || shape.equals("unmarked")
                        ? WatermarkStrategy.noWatermarks()
                        : WatermarkStrategy.forBoundedOutOfOrderness(Duration.ofSeconds(1));
        if (idle > 0) {
            strategy = strategy.withIdleness(Duration.ofMillis(idle));
        }
        if (drift > 0) {
            strategy = strategy.withWatermarkAlignment("group", Duration.ofMillis(drift), Duration.ofSeconds(1));
        }
        if (partitions.startsWith("stock/")) {
            long age = Long.parseLong(partitions.substring(6));
            DataGeneratorSource<Long> stock = new DataGeneratorSource<>(
                    number -> number, Long.MAX_VALUE, RateLimiterStrategy.perSecond(20), Types.LONG);
            return job.fromSource(
                    stock, strategy.withTimestampAssigner((row, at) -> System.currentTimeMillis() - age), name);
        }
        return job.fromSource(new Partitions<>(partitions, (number, at) -> number), strategy, name, Types.LONG);
    }

    /** Passes rows on, and throws after a number of them. */
    static class FailingMap implements org.apache.flink.api.common.functions.MapFunction<Long, Long> {
        private final long most;
        private long count;

        FailingMap(long most) {
            this.most = most;
        }

        @Override
        public Long map(Long row) {
            if (++count > most) {
                throw new IllegalStateException("row " + count + " cannot be parsed");
            }
            return row;
        }
    }

    /** Passes the rows of the first input on. */
    static class Join extends CoProcessFunction<Long, Long, Long> {
        @Override
        public void processElement1(Long row, Context context, Collector<Long> output) {
            output.collect(row);
        }

        @Override
        public void processElement2(Long row, Context context, Collector<Long> output) {}
    }

    /** One partition, as its text says. */
    static class Partition implements SourceSplit, Serializable {
        private final String id;
        private final long ageMs;
        private final long speed;
        private final long silentMs;

        Partition(int number, String text) {
            String[] parts = text.split("/");
            id = "p" + number;
            ageMs = Long.parseLong(parts[0]);
            speed = parts.length > 1 ? Long.parseLong(parts[1]) : 1000;
            silentMs = parts.length > 2 ? Long.parseLong(parts[2]) : -1;
        }

        @Override
        public String splitId() {
            return id;
        }
    }

    /** Makes a row of its number and its event time in ms. */
    interface RowMaker<T> extends Serializable {
        T row(long number, long eventMs);
    }

    /** A source of partitions, which its subtasks share in turns. */
    static class Partitions<T> implements Source<T, Partition, Integer> {
        private static final long EVERY_MS = 50;
        private final String text;
        private final RowMaker<T> maker;

        Partitions(String text, RowMaker<T> maker) {
            this.text = text;
            this.maker = maker;
        }

        @Override
        public Boundedness getBoundedness() {
            return Boundedness.CONTINUOUS_UNBOUNDED;
        }

        @Override
        public SplitEnumerator<Partition, Integer> createEnumerator(SplitEnumeratorContext<Partition> context) {
            return new SplitEnumerator<>() {
                @Override
                public void start() {}

                @Override
                public void handleSplitRequest(int subtask, String host) {}

                @Override
                public void addSplitsBack(List<Partition> splits, int subtask) {}

                @Override
                public void addReader(int subtask) {
                    String[] parts = text.split(",");
                    for (int number = subtask; number < parts.length; number += context.currentParallelism()) {
                        context.assignSplit(new Partition(number, parts[number]), subtask);
                    }
                }

                @Override
                public Integer snapshotState(long checkpoint) {
                    return 0;
                }

                @Override
                public void close() {}
            };
        }

        @Override
        public SplitEnumerator<Partition, Integer> restoreEnumerator(
                SplitEnumeratorContext<Partition> context, Integer state) {
            return createEnumerator(context);
        }

        @Override
        public SimpleVersionedSerializer<Partition> getSplitSerializer() {
            return new JavaSerializer<>();
        }

        @Override
        public SimpleVersionedSerializer<Integer> getEnumeratorCheckpointSerializer() {
            return new JavaSerializer<>();
        }

        @Override
        public SourceReader<T, Partition> createReader(SourceReaderContext context) {
            return new Reader<>(maker);
        }
    }

    /** Gives a row of each partition every 50 ms. */
    static class Reader<T> implements SourceReader<T, Partition> {
        private final RowMaker<T> maker;
        private final List<Partition> partitions = new ArrayList<>();
        private final List<String> paused = new ArrayList<>();
        private final long beginMs = System.currentTimeMillis();
        private long count;

        Reader(RowMaker<T> maker) {
            this.maker = maker;
        }

        @Override
        public void start() {}

        @Override
        public InputStatus pollNext(ReaderOutput<T> output) {
            long passedMs = System.currentTimeMillis() - beginMs;
            for (Partition each : partitions) {
                if ((each.silentMs < 0 || passedMs < each.silentMs) && !paused.contains(each.id)) {
                    long eventMs = beginMs + passedMs * each.speed / 1000 - each.ageMs;
                    output.createOutputForSplit(each.id).collect(maker.row(count++, eventMs), eventMs);
                }
            }
            return InputStatus.NOTHING_AVAILABLE;
        }

        @Override
        public CompletableFuture<Void> isAvailable() {
            return CompletableFuture.runAsync(
                    () -> {}, CompletableFuture.delayedExecutor(Partitions.EVERY_MS, TimeUnit.MILLISECONDS));
        }

        @Override
        public void addSplits(List<Partition> splits) {
            partitions.addAll(splits);
        }

        @Override
        public void pauseOrResumeSplits(Collection<String> toPause, Collection<String> toResume) {
            paused.removeAll(toResume);
            paused.addAll(toPause);
        }

        @Override
        public void notifyNoMoreSplits() {}

        @Override
        public List<Partition> snapshotState(long checkpoint) {
            return partitions;
        }

        @Override
        public void close() {}
    }

    /** Java's own form of objects. */
    static class JavaSerializer<T extends Serializable> implements SimpleVersionedSerializer<T> {
        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(T value) throws java.io.IOException {
            return org.apache.flink.util.InstantiationUtil.serializeObject(value);
        }

        @Override
        public T deserialize(int version, byte[] bytes) throws java.io.IOException {
            try {
                return org.apache.flink.util.InstantiationUtil.deserializeObject(
                        bytes, Thread.currentThread().getContextClassLoader());
            } catch (ClassNotFoundException wrong) {
                throw new java.io.IOException(wrong);
            }
        }
    }
}
