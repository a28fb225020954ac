import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Types;
import java.util.UUID;

/** java -cp postgresql.jar Jdbc.java JDBC-URL USER TOPIC */
public class Jdbc {
    interface Setter {
        void set(PreparedStatement statement) throws SQLException;
    }

    static UUID enqueue(Connection connection, String call, String topic, Setter setter)
            throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(call)) {
            setter.set(statement);
            statement.setString(5, topic);
            try (ResultSet result = statement.executeQuery()) {
                result.next();
                return result.getObject(1, UUID.class);
            }
        }
    }

    public static void main(String[] arguments) throws SQLException {
        String topic = arguments[2];
        String json = "SELECT outbox.enqueue(?, ?, ?, ?::jsonb, topic => ?)";
        String any = "SELECT outbox.enqueue(?, ?, ?, ?, topic => ?)";

        try (Connection connection =
                DriverManager.getConnection(arguments[0], arguments[1], null)) {
            connection.setAutoCommit(false);

            System.out.println(enqueue(connection, json, topic, s -> {
                s.setString(1, "order");
                s.setLong(2, 42);
                s.setString(3, "created");
                s.setString(4, "{\"total\": 10}");
            }));
            System.out.println(enqueue(connection, any, topic, s -> {
                s.setString(1, "order");
                s.setInt(2, 43);
                s.setString(3, "created");
                s.setString(4, "{\"total\": 10}");
            }));
            System.out.println(enqueue(connection, any, topic, s -> {
                s.setString(1, "order");
                s.setString(2, "A-1");
                s.setString(3, "created");
                s.setObject(4, "{\"total\": 10}", Types.OTHER);
            }));
            System.out.println(enqueue(connection, any, topic, s -> {
                s.setString(1, "order");
                s.setObject(2, UUID.randomUUID());
                s.setString(3, "scanned");
                s.setBytes(4, new byte[] {0, (byte) 255});
            }));
            System.out.println(enqueue(connection, json, topic, s -> {
                s.setString(1, "order");
                s.setLong(2, 42);
                s.setString(3, "deleted");
                s.setNull(4, Types.VARCHAR);
            }));
            connection.commit();

            enqueue(connection, json, topic, s -> {
                s.setString(1, "order");
                s.setLong(2, 42);
                s.setString(3, "rolled back");
                s.setString(4, "{}");
            });
            connection.rollback();
        }
    }
}
